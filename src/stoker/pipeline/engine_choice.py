"""The choice between the shared connect engine and a classic driver of the job's own.

A connect job starts in milliseconds on a warm server, but cannot use `SparkContext`, RDDs, the JVM
gateway or settings that Spark reads only when it starts. Such uses are found in the syntax tree,
because running the file would already need the right engine. A use that is missed costs the user
an error from Spark and a second run with `--engine classic`; a false alarm costs a slower start.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from stoker.core.checks.job import is_static_setting
from stoker.core.graph import EngineKind
from stoker.pipeline.building import LoadedJob
from stoker.pipeline.local_modules import imported_modules

AUTO = "auto"

_CLASSIC_ATTRIBUTES = frozenset(
    {"sparkContext", "_sc", "_jsc", "_jvm", "_jdf", "_jsparkSession", "rdd", "parallelize"}
)
_CLASSIC_NAMES = frozenset({"SparkContext", "SparkConf", "StreamingContext", "RDD", "Accumulator"})
_CLASSIC_MODULES = (
    "pyspark.accumulators",
    "pyspark.core",
    "pyspark.java_gateway",
    "pyspark.mllib",
    "pyspark.rdd",
    "pyspark.streaming",
    "py4j",
)


@dataclass(frozen=True, kw_only=True, order=True)
class ClassicUse:
    """A line that works only with the classic engine, and what it uses."""

    line: int
    what: str

    def __str__(self) -> str:
        return f"line {self.line} uses {self.what}"


@dataclass(frozen=True, kw_only=True)
class EngineChoice:
    engine: EngineKind
    reason: str
    """Why `auto` chose the classic engine; empty otherwise."""


def find_classic_uses(tree: ast.Module) -> list[ClassicUse]:
    """Uses of the classic engine, ordered by line."""
    return sorted(set(_classic_uses(tree)))


def _classic_uses(tree: ast.Module) -> Iterator[ClassicUse]:
    for name, line in imported_modules(tree):
        if any(name == module or name.startswith(f"{module}.") for module in _CLASSIC_MODULES):
            yield ClassicUse(line=line, what=name)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if name in _CLASSIC_ATTRIBUTES:
                yield ClassicUse(line=node.lineno, what=name)
            case ast.ImportFrom(module=str(origin), names=aliases) if origin == "pyspark":
                for alias in aliases:
                    if alias.name in _CLASSIC_NAMES:
                        yield ClassicUse(line=node.lineno, what=alias.name)
            case ast.Call(
                func=ast.Attribute(attr="config"), args=[ast.Constant(value=str(key)), *_]
            ):
                if is_static_setting(key):
                    yield ClassicUse(line=node.lineno, what=key)
            case ast.Call(func=ast.Attribute(attr="master" | "enableHiveSupport" as name)):
                yield ClassicUse(line=node.lineno, what=f"{name}()")
            case _:
                pass


def choose_engine(
    wanted: str, tree: ast.Module | None, configuration: Mapping[str, str], *, is_program: bool
) -> EngineChoice:
    """`wanted` is connect, classic or auto; `tree` is None unless the job is a Python file."""
    if wanted != AUTO:
        return EngineChoice(engine=EngineKind(wanted), reason="")
    static = sorted(key for key in configuration if is_static_setting(key))
    uses = find_classic_uses(tree) if tree is not None else []
    if static:
        reason = f"{static[0]} is fixed when Spark starts"
    elif uses:
        reason = str(uses[0])
    elif is_program:
        reason = "a program has a driver of its own"
    else:
        return EngineChoice(engine=EngineKind.CONNECT, reason="")
    return EngineChoice(engine=EngineKind.CLASSIC, reason=reason)


def with_engine(loaded: LoadedJob, tree: ast.Module | None, wanted: str) -> LoadedJob:
    """The job with its engine and the reason for the choice."""
    choice = choose_engine(wanted, tree, loaded.graph.configuration, is_program=False)
    if choice.engine is EngineKind.CONNECT and wanted == AUTO:
        return loaded
    graph = msgspec.structs.replace(loaded.graph, engine=choice.engine, engine_reason=choice.reason)
    return replace(loaded, graph=graph)
