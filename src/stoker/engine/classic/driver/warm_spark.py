"""A JVM and a Spark context that are started before the job is known.

User code requests its session as usual. If the prepared session has the requested settings, the
code gets that session. Otherwise the prepared context is stopped, and Spark makes another one in
the same warm JVM.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

_APP_NAME = "spark.app.name"
"""Any prepared context fits any name: the context is renamed."""


class WarmSpark:
    def __init__(self) -> None:
        # Much of PySpark is untyped, hence the Any.
        context_class: Any = SparkContext
        context_class._ensure_initialized()
        self._gateway: Any = context_class._gateway
        self._session: Any = None

    @property
    def version(self) -> str:
        return str(self._gateway.jvm.org.apache.spark.package.SPARK_VERSION())

    def make_context(self) -> None:
        """Make the context and run queries, so that the JVM loads the classes they need."""
        session: Any = SparkSession.builder.getOrCreate()
        session.range(10).write.format("noop").mode("append").save()
        session.range(10).count()
        session.sql("SELECT 1 AS one").collect()
        self._session = session

    @property
    def is_unclaimed(self) -> bool:
        """Whether the prepared session exists and user code has not received it yet."""
        return self._session is not None

    def set_properties(self, settings: Mapping[str, str]) -> None:
        """Make settings for all later contexts, like `--conf` of spark-submit."""
        system = self._gateway.jvm.java.lang.System
        for key, value in settings.items():
            system.setProperty(key, value)

    def configure(self, settings: Mapping[str, str]) -> None:
        for key, value in settings.items():
            self._session.conf.set(key, value)

    def set_workers_environment(self, variables: Mapping[str, str]) -> None:
        """Set variables for the workers of the present context and of all later ones."""
        self.set_properties({f"spark.executorEnv.{k}": v for k, v in variables.items()})
        context: Any = SparkContext._active_spark_context
        if context is not None:
            context.environment.update(variables)

    def add_files(self, files: Iterable[str], python_files: Iterable[str]) -> None:
        files, python_files = list(files), list(python_files)
        if files:
            self.set_properties({"spark.files": ",".join(files)})
        if python_files:
            self.set_properties({"spark.submit.pyFiles": ",".join(python_files)})
        if self._session is not None:
            for file in files:
                self._session.sparkContext.addFile(file)
            for file in python_files:
                self._session.sparkContext.addPyFile(file)

    @property
    def is_local(self) -> bool:
        """Whether Python workers run on this machine and see its files."""
        master = self._gateway.jvm.java.lang.System.getProperty("spark.master")
        return str(master or "local").startswith("local")

    def add_archive(self, archive: Path, name: str) -> None:
        """Unpack the archive as a directory of this name on each executor."""
        system = self._gateway.jvm.java.lang.System
        archives = [system.getProperty("spark.archives"), f"{archive}#{name}"]
        self.set_properties({"spark.archives": ",".join(filter(None, archives))})
        if self._session is not None:
            self._session.sparkContext.addArchive(f"{archive}#{name}")

    def work_in(self, directory: str) -> None:
        """Make Spark resolve relative paths against this directory."""
        self.set_properties({"user.dir": directory})
        jvm: Any = self._gateway.jvm
        context: Any = SparkContext._active_spark_context
        configuration = (
            jvm.org.apache.hadoop.conf.Configuration()
            if context is None
            else context._jsc.hadoopConfiguration()
        )
        # Hadoop keeps its file systems, and with them the directory, beyond a context.
        local = jvm.org.apache.hadoop.fs.Path("file:///").getFileSystem(configuration)
        local.setWorkingDirectory(jvm.org.apache.hadoop.fs.Path(directory))

    def discard_context(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            session.stop()

    def claim(self) -> Any:
        """Return the prepared session, and offer it to nobody else; None if there is none."""
        session, self._session = self._session, None
        return session

    def hand_over(self) -> None:
        """From now on, offer this session to code that asks PySpark for a session or context."""
        builder: Any = SparkSession.Builder
        builder.getOrCreate = self._before(
            builder.getOrCreate, lambda made, *_a, **_k: self._offer(made._options)
        )
        context: Any = SparkContext
        context.__init__ = self._before(context.__init__, lambda *_a, **_k: self.discard_context())
        context.getOrCreate = classmethod(
            self._before(
                context.getOrCreate.__func__, lambda _cls, conf=None: self._offer_for(conf)
            )
        )

    def stop_everything(self) -> None:
        """Stop the context that user code left open, then the JVM."""
        context: Any = SparkContext._active_spark_context
        if context is not None:
            context.stop()
        self._gateway.proc.kill()

    def _offer(self, wanted: dict[str, Any]) -> None:
        if self._session is None:
            return
        if not self._fits(wanted):
            self.discard_context()
            return
        session = self.claim()
        # Removed, because Spark would warn that the setting comes too late for its context.
        name = wanted.pop(_APP_NAME, None)
        if name is not None:
            session.sparkContext.appName = name

    def _offer_for(self, conf: SparkConf | None) -> None:
        self._offer(dict(conf.getAll()) if conf is not None else {})

    def _fits(self, wanted: Mapping[str, Any]) -> bool:
        present = dict(self._session.sparkContext.getConf().getAll())
        return all(
            key == _APP_NAME
            or present.get(key) == str(value)
            or self._session.conf.isModifiable(key)
            for key, value in wanted.items()
        )

    def _before(self, original: Callable[..., Any], first: Callable[..., None]) -> Any:
        @wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if self._session is not None:
                first(*args, **kwargs)
            return original(*args, **kwargs)

        return wrapper
