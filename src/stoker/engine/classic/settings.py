"""Settings of a driver, and whether a spare driver fits a job."""

from collections.abc import Mapping
from enum import Enum, auto

from stoker.core.checks.job import is_static_setting
from stoker.core.job_options import SHUFFLE_PARTITIONS
from stoker.engine.classic.options import ClassicOptions
from stoker.engine.options import EngineOptions
from stoker.engine.server_config import ServerFiles, is_local, spark_properties
from stoker.engine.worker_settings import worker_properties

LOGGERS = """\
# Warns of a directory that the program did not choose.
logger.conf.name = org.apache.spark.SparkConf
logger.conf.level = error
# Its messages about the Spark UI do not concern the program's user.
logger.jetty.name = org.sparkproject.jetty
logger.jetty.level = error
"""

_FOR_A_JVM = (
    "spark.archives",
    "spark.driver.",
    "spark.hadoop.",
    "spark.jars",
    "spark.kubernetes.",
    "spark.submit.",
    "spark.yarn.",
)
"""Prefixes of settings that spark-submit reads, or the JVM when it starts."""
_LAUNCH_VARIABLES = ("SPARK_", "PYSPARK_", "JAVA_", "HADOOP_", "YARN_", "PYTHON", "LD_", "OMP_")
"""Prefixes of environment variables that are read when a process starts."""
_CONNECT_ONLY = (
    "spark.app.name",
    "spark.connect.",
    "spark.sql.connect.",
    "spark.scheduler.mode",
    SHUFFLE_PARTITIONS,
    "spark.sql.streaming.stateStore.",
)
"""Prefixes of settings for the shared server. A program gets Spark's defaults instead."""


class Fit(Enum):
    CONTEXT = auto()
    """A spare driver fits as it is, with its Spark context."""
    JVM = auto()
    """A spare driver's JVM fits; it needs a new Spark context."""
    NOTHING = auto()
    """No spare fits: start a driver for this job."""


def fit_of(configuration: Mapping[str, str], environment: Mapping[str, str]) -> Fit:
    """How much of a spare driver a job with these settings can use."""
    settings = [key for key in configuration if key.startswith("spark.")]
    master = configuration.get("spark.master", "")
    if (
        any(key.startswith(_FOR_A_JVM) for key in settings)
        or any(name.startswith(_LAUNCH_VARIABLES) for name in environment)
        or master.startswith(("yarn", "k8s"))
    ):
        return Fit.NOTHING
    if all(key.startswith("spark.sql.") and not is_static_setting(key) for key in settings):
        return Fit.CONTEXT
    return Fit.JVM


def driver_properties(
    options: EngineOptions,
    classic: ClassicOptions,
    files: ServerFiles,
    job_settings: Mapping[str, str],
    page_key: str = "",
) -> dict[str, str]:
    """All settings of a driver; the job's settings win, then those of the cluster."""
    chosen = spark_properties(options, files, cores=1, page_key=page_key)
    kept = {
        key: value
        for key, value in chosen.items()
        if key in options.spark_properties or not key.startswith(_CONNECT_ONLY)
    }
    if "spark.driver.memory" not in options.spark_properties:
        kept["spark.driver.memory"] = f"{max(int(classic.heap) // 1024**2, 1)}m"
    settings = {key: value for key, value in job_settings.items() if key.startswith("spark.")}
    java_options = "spark.driver.extraJavaOptions"
    if java_options in settings:
        settings[java_options] = f"{kept.get(java_options, '')} {settings[java_options]}".strip()
    if not is_local((kept | settings)["spark.master"]) and is_local(options.master):
        # Spark makes the secret for this by itself only if it is its own only executor.
        kept.pop("spark.authenticate", None)
    chosen = kept | settings
    return worker_properties(chosen["spark.master"]) | chosen
