"""Files, settings and environment of a Spark Connect server or classic driver.

The user's settings win over Stoker's defaults, except for those that Stoker needs in order to tell
whether cancelled work has ended.
"""

import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import StartupFailed
from stoker.core.job_options import SHUFFLE_PARTITIONS
from stoker.engine.inherited_variables import for_jobs
from stoker.engine.java import Java
from stoker.engine.options import EngineOptions
from stoker.engine.spark_page import page_settings
from stoker.osproc.orphans import OWNER, owner_mark

STARTED_MARK = "Spark Connect server started at: "

NOWHERE = Path("/proc/sys")
"""Working directory of Spark's processes: nobody, not even root, can create a file in it.

What they resolved against it by mistake would be lost in a private directory otherwise."""

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
# Logs the same harmless warning at every start.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""
_SERVER_LOGGERS = """\
# Logs the port and the address of the web page, which are chosen when the server starts.
logger.server.name = org.apache.spark.sql.connect.service.SparkConnectServer
logger.server.level = info
logger.ui.name = org.apache.spark.util.Utils
logger.ui.level = info
# Warns of each scheduler pool that no file configures; Stoker's pools need no file.
logger.pools.name = org.apache.spark.scheduler.FairSchedulableBuilder
logger.pools.level = error
"""


@dataclass(frozen=True, kw_only=True)
class ServerFiles:
    """Paths of one server or driver: its own files, and its log."""

    work: Path
    logs: Path
    generation: int | None = None
    """Counts the servers of one engine, since a server and its replacement run at the same time.
    None for a classic driver, which is never replaced."""

    @property
    def own(self) -> Path:
        """Directory of this server alone, removed when the server ends."""
        return (
            self.work if self.generation is None else self.work / "servers" / str(self.generation)
        )

    @property
    def mark(self) -> str:
        """Mark in the environment of the server and of all processes that it starts."""
        return str(self.own)

    @property
    def properties(self) -> Path:
        return self.own / "spark.properties"

    @property
    def closed_sessions(self) -> Path:
        """Directory in which runners mark the sessions that they have closed."""
        return self.own / "closed-sessions"

    @property
    def log4j(self) -> Path:
        return self.own / "log4j2.properties"

    @property
    def log(self) -> Path:
        suffix = (
            f"-{self.generation}" if self.generation is not None and self.generation > 1 else ""
        )
        return self.logs / f"spark-server{suffix}.log"

    def write(self, properties: dict[str, str], *, loggers: str = _SERVER_LOGGERS) -> None:
        """Write the files that Spark reads; `loggers` are further lines for log4j."""
        self.own.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(parents=True, exist_ok=True)
        self.log4j.write_text(_LOG4J + loggers)
        # Not passed on the command line, which everybody can read: settings can hold secrets.
        descriptor = os.open(self.properties, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.writelines(f"{key}={_escaped(value)}\n" for key, value in properties.items())


_REQUIRED = {"spark.ui.enabled": "true", "spark.ui.threadDumpsEnabled": "true"}
"""Only Spark's monitoring tells whether cancelled work has ended, so it cannot be turned off."""


_LAST_JAVA_WITH_VFORK = 21
"""Newest Java known to support VFORK. A Java without it would refuse to start any process."""


def spark_properties(
    options: EngineOptions,
    files: ServerFiles,
    cores: int,
    *,
    java: int | None = None,
    first_jars: Sequence[Path] = (),
    page_key: str = "",
) -> dict[str, str]:
    """All settings of the server; the user's own win.

    `java`: the version of Java, if known. `first_jars`: jars to put first on the class path.
    `page_key`: the key of Spark's monitoring page, which is open to all without it.
    """
    own = files.own
    java_options = [
        f"-Dlog4j2.configurationFile={files.log4j}",
        f"-Dderby.system.home={own / 'derby'}",
        f"-Djava.io.tmpdir={own / 'tmp'}",
        "-XX:-UsePerfData",
    ]
    if java is not None and java <= _LAST_JAVA_WITH_VFORK:
        # Spark starts a process at the end of each session; by default Java starts two for it.
        java_options.append("-Djdk.lang.Process.launchMechanism=VFORK")
    properties = {
        "spark.master": options.master,
        "spark.app.name": "stoker",
        "spark.driver.memory": f"{max(int(options.heap) // 1024**2, 1)}m",
        "spark.driver.extraJavaOptions": " ".join(java_options),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        # The runner ends its session. Spark must not: an idle session may hold streams.
        "spark.connect.session.manager.defaultSessionTimeout": "3650d",
        "spark.connect.progress.reportInterval": "1s",
        "spark.sql.connect.serverStacktrace.enabled": "false",
        "spark.python.task.killTimeout": "100ms",
        "spark.scheduler.mode": "FAIR",
        **pipeline_settings(cores),
        # Without a metastore the catalog ends with the server, and so must the files of its tables.
        # Not a URL: Spark takes a percent sign literally.
        "spark.sql.warehouse.dir": str(own / "warehouse"),
        "spark.local.dir": str(own / "local"),
        "spark.ui.port": "0",
        "spark.ui.killEnabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.metrics.conf.driver.source.jvm.class": "org.apache.spark.metrics.source.JvmSource",
    }
    if first_jars:
        # For each query Spark reads some of its own classes as files. It searches jars in order.
        # Among almost three hundred, its own would come near the end.
        properties["spark.driver.extraClassPath"] = os.pathsep.join(map(str, first_jars))
    if page_key:
        properties |= page_settings(page_key)
    if is_local(options.master):
        # Spark makes the secret itself, so only this process can use its ports.
        properties["spark.authenticate"] = "true"
    if not options.master.startswith("local"):
        properties |= _reaper(options.cancellation_timeout.total_seconds())
    if is_on_this_machine(options.master):
        properties |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return properties | options.spark_properties | _REQUIRED


def pipeline_settings(cores: int) -> dict[str, str]:
    """Settings of pipelines, the same on both engines; classic programs keep Spark's defaults."""
    return {
        SHUFFLE_PARTITIONS: str(cores),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }


def _reaper(seconds: float) -> dict[str, str]:
    """Settings by which executors with uninterruptible tasks end and others take over their work.

    This happens well before the server itself would be killed. With a local master the server is
    its own executor, and Spark's reaper does not end it: there Stoker kills the server.
    """
    if seconds == 0:
        return {}
    return {
        "spark.task.reaper.enabled": "true",
        "spark.task.reaper.killTimeout": f"{max(seconds * 500, 1):.0f}ms",
        "spark.task.reaper.pollingInterval": f"{max(seconds * 100, 1):.0f}ms",
        "spark.task.reaper.threadDump": "false",
    }


def spark_home() -> Path:
    """PySpark's directory, which holds a complete Spark; found without importing PySpark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise StartupFailed("pyspark is not installed; pip install 'pyspark[connect]'")
    return Path(spec.origin).parent


def spark_environment(options: EngineOptions, java: Java) -> dict[str, str]:
    """Environment of a server or driver, in which code of jobs runs."""
    environment = for_jobs(os.environ, options.passed_variables) | {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        OWNER: owner_mark(),
    }
    locale = environment.get("LC_ALL") or environment.get("LC_CTYPE") or environment.get("LANG")
    if "utf" not in (locale or "").lower():
        # Otherwise Java can neither read nor create files whose names are not ASCII.
        environment["LC_ALL"] = "C.UTF-8"
    # Without this, the web page listens on every interface. Stoker asks it on loopback only.
    environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    return environment


def is_local(master: str) -> bool:
    """Whether Spark is one process, its own only executor."""
    return master == "local" or master.startswith("local[")


def is_on_this_machine(master: str) -> bool:
    """Whether Spark runs on this machine alone, so that it need not listen beyond loopback."""
    if master.startswith("spark://"):
        hosts = [part.rpartition(":")[0] for part in master.removeprefix("spark://").split(",")]
        return all(host in ("localhost", "127.0.0.1") for host in hosts)
    return master.startswith("local")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
