"""Answers about the processes of a cluster, in the form of Flink's REST API."""

from stoker.api.shape import Answer, Camel


class ConfigurationEntry(Answer, frozen=True, kw_only=True):
    """One of GET /jobmanager/config"""

    key: str
    value: str


class Runtime(Answer, frozen=True, kw_only=True):
    """Python, in the place where Flink tells of its JVM."""

    version: str
    arch: str
    options: list[str]


class Environment(Answer, frozen=True, kw_only=True):
    """GET /jobmanager/environment"""

    jvm: Runtime
    classpath: list[str]
    """Where Python finds its modules."""


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
