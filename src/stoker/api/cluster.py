"""Answers about the cluster and its processes, in the form of Flink's REST API."""

import msgspec

from stoker.api.metrics import TaskManagerMetrics
from stoker.api.shape import Answer, Camel, Dashed
from stoker.core.ids import JobId

FLINK_API_VERSION = "2.3.0"
"""Version of Flink's REST API that Stoker implements; Flink's clients check it."""


class ClusterOverviewAnswer(Dashed, frozen=True, kw_only=True):
    """GET /overview"""

    taskmanagers: int
    slots_total: int
    slots_available: int
    jobs_running: int
    jobs_finished: int
    jobs_cancelled: int
    jobs_failed: int
    flink_version: str = FLINK_API_VERSION
    flink_commit: str
    """Stoker's own version."""
    leader: str | msgspec.UnsetType = msgspec.UNSET
    """URL of the leading master, if the request asks for it."""
    leader_epoch: int | msgspec.UnsetType = msgspec.UNSET
    """Epoch of its leadership, which grows with each change of leader; with `leader`."""


class DashboardFeatures(Dashed, frozen=True, kw_only=True):
    web_submit: bool
    web_cancel: bool
    web_rescale: bool = False
    web_history: bool = False


class DashboardConfig(Dashed, frozen=True, kw_only=True):
    """GET /config"""

    refresh_interval: int
    """Milliseconds."""
    timezone_name: str
    timezone_offset: int
    """Milliseconds east of UTC."""
    flink_version: str = FLINK_API_VERSION
    flink_revision: str
    """Stoker's own version."""
    features: DashboardFeatures


class TaskManagerResource(Camel, frozen=True, kw_only=True):
    """A share of a task executor; memory in MiB. Resources that Spark does not divide are 0."""

    cpu_cores: float = 0.0
    task_heap_memory: int = 0
    task_off_heap_memory: int = 0
    managed_memory: int = 0
    network_memory: int = 0
    extended_resources: dict[str, float] = {}


class TaskManagerHardware(Camel, frozen=True, kw_only=True):
    """Memory in bytes."""

    cpu_cores: int
    physical_memory: int
    free_memory: int = 0
    managed_memory: int = 0


class TaskManagerMemory(Camel, frozen=True, kw_only=True):
    """Memory in bytes."""

    framework_heap: int = 0
    task_heap: int = 0
    framework_off_heap: int = 0
    task_off_heap: int = 0
    network_memory: int = 0
    managed_memory: int = 0
    jvm_metaspace: int = 0
    jvm_overhead: int = 0
    total_flink_memory: int = 0
    total_process_memory: int = 0


class TaskManager(Camel, frozen=True, kw_only=True):
    """A task executor, which Flink's API calls task manager."""

    id: str
    path: str
    """The RPC address."""
    data_port: int = -1
    jmx_port: int = -1
    time_since_last_heartbeat: int
    """Despite its name the time of the last heartbeat, in milliseconds since 1970."""
    slots_number: int
    free_slots: int
    assigned_tasks: int
    total_resource: TaskManagerResource
    free_resource: TaskManagerResource
    hardware: TaskManagerHardware
    memory_configuration: TaskManagerMemory


class TaskManagers(Answer, frozen=True, kw_only=True):
    """GET /taskmanagers"""

    taskmanagers: list[TaskManager]


class AllocatedSlot(Camel, frozen=True, kw_only=True):
    job_id: JobId
    resource: TaskManagerResource
    assigned_tasks: int = 1


class TaskManagerAnswer(TaskManager, frozen=True, kw_only=True):
    """GET /taskmanagers/:id"""

    allocated_slots: list[AllocatedSlot] = msgspec.field(default_factory=list)
    metrics: TaskManagerMetrics = msgspec.field(default_factory=TaskManagerMetrics)


class ConfigurationEntry(Answer, frozen=True, kw_only=True):
    """An item of GET /jobmanager/config"""

    key: str
    value: str


class PythonRuntime(Answer, frozen=True, kw_only=True):
    """The Python interpreter, in the field where Flink describes its JVM."""

    version: str
    arch: str
    options: list[str]


class PythonEnvironment(Answer, frozen=True, kw_only=True):
    """GET /jobmanager/environment"""

    jvm: PythonRuntime
    classpath: list[str]
    """Python's module search path."""


class LogFileAnswer(Answer, frozen=True, kw_only=True):
    name: str
    size: int
    mtime: int
    """Milliseconds since 1970."""


class LogList(Answer, frozen=True, kw_only=True):
    """GET /jobmanager/logs"""

    logs: list[LogFileAnswer]


class LogUrl(Answer, frozen=True, kw_only=True):
    """GET /jobs/:id/jobmanager/log-url"""

    url: str


class ThreadInfo(Camel, frozen=True, kw_only=True):
    thread_name: str
    stringified_thread_info: str


class ThreadDump(Camel, frozen=True, kw_only=True):
    """GET /jobmanager/thread-dump"""

    thread_infos: list[ThreadInfo]
