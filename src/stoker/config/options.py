"""The list of all options classes. Add a new class here; a test finds a forgotten one."""

from stoker.blob.options import BlobOptions
from stoker.client.options import ClientOptions
from stoker.config.processes import (
    ClusterOptions,
    MasterOptions,
    ProcessOptions,
    TaskExecutorProcessOptions,
)
from stoker.dispatcher.options import DispatcherOptions, QueueOptions
from stoker.engine.classic.options import ClassicOptions
from stoker.engine.options import EngineOptions
from stoker.events.options import EventOptions
from stoker.gateways.leases import LeaseOptions
from stoker.ha.zookeeper.options import ZooKeeperOptions
from stoker.heartbeat.options import HeartbeatOptions
from stoker.jobmaster.options import JobMasterOptions
from stoker.metrics.options import MetricOptions
from stoker.resourcemanager.options import ResourceManagerOptions
from stoker.rest.options import RestOptions
from stoker.rpc.options import RegistrationOptions, RpcOptions
from stoker.savepoints.options import SavepointOptions
from stoker.security.options import (
    AuditOptions,
    InternalSecurityOptions,
    RestSecurityOptions,
    SubmissionLimitOptions,
)
from stoker.taskexecutor.options import TaskExecutorOptions

ALL: tuple[type, ...] = (
    AuditOptions,
    BlobOptions,
    ClassicOptions,
    ClientOptions,
    ClusterOptions,
    DispatcherOptions,
    EngineOptions,
    EventOptions,
    HeartbeatOptions,
    InternalSecurityOptions,
    JobMasterOptions,
    LeaseOptions,
    MasterOptions,
    MetricOptions,
    ProcessOptions,
    QueueOptions,
    RegistrationOptions,
    ResourceManagerOptions,
    RestOptions,
    RestSecurityOptions,
    RpcOptions,
    SavepointOptions,
    SubmissionLimitOptions,
    TaskExecutorOptions,
    TaskExecutorProcessOptions,
    ZooKeeperOptions,
)
