"""A JVM and a Spark context that were made before anybody knew for whom.

User code asks for its session as it always does. If what it asks for is what is there, it gets
that; else what is there is stopped and Spark makes another in the same JVM, which is warm.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

_NAME_ONLY = "spark.app.name"


class WarmSpark:
    def __init__(self) -> None:
        # PySpark's untyped ends are many: it is Any from here on.
        context_class: Any = SparkContext
        context_class._ensure_initialized()
        self._gateway: Any = context_class._gateway
        self._session: Any = None

    @property
    def version(self) -> str:
        return str(self._gateway.jvm.org.apache.spark.package.SPARK_VERSION())

    def make_context(self) -> None:
        """Makes the context and runs queries, so that the JVM has loaded what those need."""
        session: Any = SparkSession.builder.getOrCreate()
        session.range(10).write.format("noop").mode("append").save()
        session.range(10).count()
        session.sql("SELECT 1 AS one").collect()
        self._session = session

    @property
    def is_unclaimed(self) -> bool:
        return self._session is not None

    def set_properties(self, settings: Mapping[str, str]) -> None:
        """For contexts that are made from now on, as `--conf` of spark-submit does it."""
        system = self._gateway.jvm.java.lang.System
        for key, value in settings.items():
            system.setProperty(key, value)

    def configure(self, settings: Mapping[str, str]) -> None:
        for key, value in settings.items():
            self._session.conf.set(key, value)

    def set_workers_environment(self, variables: Mapping[str, str]) -> None:
        self.set_properties({f"spark.executorEnv.{k}": v for k, v in variables.items()})
        if self._session is not None:
            self._session.sparkContext.environment.update(variables)

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
        """Python workers are processes of this machine, with its files."""
        master = self._gateway.jvm.java.lang.System.getProperty("spark.master")
        return str(master or "local").startswith("local")

    def add_archive(self, archive: Path, name: str) -> None:
        """Unpacked as a directory of this name wherever executors work."""
        system = self._gateway.jvm.java.lang.System
        archives = [system.getProperty("spark.archives"), f"{archive}#{name}"]
        self.set_properties({"spark.archives": ",".join(filter(None, archives))})
        if self._session is not None:
            self._session.sparkContext.addArchive(f"{archive}#{name}")

    def work_in(self, directory: str) -> None:
        """Relative paths that Spark reads and writes are relative to this directory."""
        self.set_properties({"user.dir": directory})
        if self._session is not None:
            jvm = self._gateway.jvm
            configuration = self._session.sparkContext._jsc.hadoopConfiguration()
            local = jvm.org.apache.hadoop.fs.Path("file:///").getFileSystem(configuration)
            local.setWorkingDirectory(jvm.org.apache.hadoop.fs.Path(directory))

    def discard_context(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            session.stop()

    def claim(self) -> Any:
        session, self._session = self._session, None
        return session

    def hand_over(self) -> None:
        """From now on whoever asks PySpark for a session or a context is given this one first."""
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
        """Ends what user code left open, then the JVM, which has nothing to do any more."""
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
        # Taken out, since Spark would warn of settings that come too late for its context.
        name = wanted.pop(_NAME_ONLY, None)
        if name is not None:
            session.sparkContext.appName = name

    def _offer_for(self, conf: SparkConf | None) -> None:
        self._offer(dict(conf.getAll()) if conf is not None else {})

    def _fits(self, wanted: Mapping[str, Any]) -> bool:
        given = dict(self._session.sparkContext.getConf().getAll())
        return all(
            key == _NAME_ONLY
            or given.get(key) == str(value)
            or self._session.conf.isModifiable(key)
            for key, value in wanted.items()
        )

    def _before(self, original: Callable[..., Any], first: Callable[..., None]) -> Any:
        @wraps(original)
        def called(*args: Any, **kwargs: Any) -> Any:
            if self._session is not None:
                first(*args, **kwargs)
            return original(*args, **kwargs)

        return called
