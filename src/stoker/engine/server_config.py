"""How the Spark Connect server is configured: pure, from the engine's options."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.core.job_options import SHUFFLE_PARTITIONS
from stoker.engine.options import EngineOptions

STARTED_MARK = "Spark Connect server started at: "

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
# Tells the port and the web page's address, which are chosen when the server starts.
logger.server.name = org.apache.spark.sql.connect.service.SparkConnectServer
logger.server.level = info
logger.ui.name = org.apache.spark.util.Utils
logger.ui.level = info
# Says the same harmless thing at every start.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
# Says that a pool of ours is not in a file of pools, which it need not be.
logger.pools.name = org.apache.spark.scheduler.FairSchedulableBuilder
logger.pools.level = error
"""


@dataclass(frozen=True, kw_only=True)
class ServerFiles:
    """Where a server keeps what it needs, all below the engine's working directory."""

    work: Path
    logs: Path
    life: int | None = None
    """Counts the lives of a server that is replaced: two of them may overlap."""

    @property
    def own(self) -> Path:
        """Goes with this life."""
        return self.work if self.life is None else self.work / "servers" / str(self.life)

    @property
    def mark(self) -> str:
        """What the server and all that it starts carry in their environment."""
        return str(self.own)

    @property
    def properties(self) -> Path:
        return self.own / "spark.properties"

    @property
    def closed(self) -> Path:
        """Where runners mark the sessions that they have closed."""
        return self.own / "closed-sessions"

    @property
    def log4j(self) -> Path:
        return self.own / "log4j2.properties"

    @property
    def log(self) -> Path:
        later = f"-{self.life}" if self.life is not None and self.life > 1 else ""
        return self.logs / f"spark-server{later}.log"

    def write(self, properties: dict[str, str]) -> None:
        self.own.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(parents=True, exist_ok=True)
        self.log4j.write_text(_LOG4J)
        # Settings can hold secrets, and a command line can be read by everyone.
        descriptor = os.open(self.properties, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.writelines(f"{key}={_escaped(value)}\n" for key, value in properties.items())


_WITNESS = {"spark.ui.enabled": "true", "spark.ui.threadDumpsEnabled": "true"}
"""Spark's monitoring alone can tell that cancelled work has ended: nobody may turn it off."""


_LAST_JAVA_WITH_VFORK = 21
"""That is known to have it; one without would refuse to start any process."""


def spark_properties(
    options: EngineOptions,
    files: ServerFiles,
    cores: int,
    *,
    java: int | None = None,
    first_jars: Sequence[Path] = (),
) -> dict[str, str]:
    """All settings of the server; what the user set wins.

    `java`: its version, if that is known. `first_jars`: those that are most often looked into.
    """
    own = files.own
    java_options = [
        f"-Dlog4j2.configurationFile={files.log4j}",
        f"-Dderby.system.home={own / 'derby'}",
        f"-Djava.io.tmpdir={own / 'tmp'}",
        "-XX:-UsePerfData",
    ]
    if java is not None and java <= _LAST_JAVA_WITH_VFORK:
        # Spark starts one at the end of each session; otherwise Java starts two for it.
        java_options.append("-Djdk.lang.Process.launchMechanism=VFORK")
    properties = {
        "spark.master": options.master,
        "spark.app.name": "stoker",
        "spark.driver.memory": f"{max(int(options.heap) // 1024**2, 1)}m",
        "spark.driver.extraJavaOptions": " ".join(java_options),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        # A session belongs to its runner, which ends it; an idle one must not lose its streams.
        "spark.connect.session.manager.defaultSessionTimeout": "3650d",
        "spark.connect.progress.reportInterval": "1s",
        "spark.sql.connect.serverStacktrace.enabled": "false",
        "spark.python.task.killTimeout": "100ms",
        "spark.scheduler.mode": "FAIR",
        SHUFFLE_PARTITIONS: str(cores),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.warehouse.dir": (files.work / "warehouse").as_uri(),
        "spark.local.dir": str(own / "local"),
        "spark.ui.port": "0",
        "spark.ui.killEnabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if first_jars:
        # For each query Spark reads some of its own classes as files, and looks for them in one jar
        # after the other: among almost three hundred its own come near the end.
        properties["spark.driver.extraClassPath"] = os.pathsep.join(map(str, first_jars))
    if not options.master.startswith("local"):
        properties |= _reaper(options.cancellation_timeout.total_seconds())
    if is_on_this_machine(options.master):
        properties |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return properties | options.spark_properties | _WITNESS


def _reaper(seconds: float) -> dict[str, str]:
    """Executors whose tasks do not heed their cancel end, and others take over what they had.

    In good time before the server itself would be ended for it, as one that is its own executor is:
    Spark's own reaper does not do that.
    """
    if seconds == 0:
        return {}
    return {
        "spark.task.reaper.enabled": "true",
        "spark.task.reaper.killTimeout": f"{max(seconds * 500, 1):.0f}ms",
        "spark.task.reaper.pollingInterval": f"{max(seconds * 100, 1):.0f}ms",
        "spark.task.reaper.threadDump": "false",
    }


def is_on_this_machine(master: str) -> bool:
    """Then nobody else needs to reach the server, and it listens here only."""
    if master.startswith("spark://"):
        hosts = [part.rpartition(":")[0] for part in master.removeprefix("spark://").split(",")]
        return all(host in ("localhost", "127.0.0.1") for host in hosts)
    return master.startswith("local")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
