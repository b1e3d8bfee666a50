"""What a Python file says about itself, read without running it."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.core.checks.job import is_static_setting
from stoker.core.errors import InvalidInput
from stoker.core.graph import EngineKind
from stoker.pipeline.python_job import syntax_error

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
class Sign:
    """A place in a file that works only with a driver of its own."""

    line: int
    what: str

    def __str__(self) -> str:
        return f"line {self.line} uses {self.what}"


@dataclass(frozen=True, kw_only=True)
class EngineChoice:
    engine: EngineKind
    reason: str
    """Why, when nobody asked for it."""


def parse(source: str, file: Path) -> ast.Module:
    """Raises InvalidInput with the line that is not Python."""
    try:
        return ast.parse(source, filename=str(file))
    except SyntaxError as error:
        raise syntax_error(file, error) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise InvalidInput(
            f"{file.name}: Python cannot read it: {error}; correct it", file=str(file)
        ) from error


def is_pipeline(tree: ast.Module) -> bool:
    """Whether the file uses Stoker's authoring API; any other is a program."""
    return any(name.split(".")[0] == "stoker" for name, _ in imports(tree))


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Absolute names of imported modules, wherever they are imported, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                yield from ((alias.name, node.lineno) for alias in aliases)
            case ast.ImportFrom(module=str(origin), level=0):
                yield origin, node.lineno
            case _:
                pass


def signs_of_classic(tree: ast.Module) -> list[Sign]:
    """All of them, in the order of the lines."""
    return sorted(set(_signs(tree)))


def _signs(tree: ast.Module) -> Iterator[Sign]:
    for name, line in imports(tree):
        if any(name == module or name.startswith(f"{module}.") for module in _CLASSIC_MODULES):
            yield Sign(line=line, what=name)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if name in _CLASSIC_ATTRIBUTES:
                yield Sign(line=node.lineno, what=name)
            case ast.ImportFrom(module=str(origin), names=aliases) if origin == "pyspark":
                for alias in aliases:
                    if alias.name in _CLASSIC_NAMES:
                        yield Sign(line=node.lineno, what=alias.name)
            case ast.Call(
                func=ast.Attribute(attr="config"), args=[ast.Constant(value=str(key)), *_]
            ):
                if is_static_setting(key):
                    yield Sign(line=node.lineno, what=key)
            case ast.Call(func=ast.Attribute(attr="master" | "enableHiveSupport" as name)):
                yield Sign(line=node.lineno, what=f"{name}()")
            case _:
                pass


def choose_engine(
    wanted: str, tree: ast.Module | None, configuration: Mapping[str, str], *, program: bool
) -> EngineChoice:
    """`wanted` is connect, classic or auto; a job that is no Python file has no tree."""
    if wanted != "auto":
        return EngineChoice(engine=EngineKind(wanted), reason="")
    static = sorted(key for key in configuration if is_static_setting(key))
    signs = signs_of_classic(tree) if tree is not None else []
    if static:
        reason = f"{static[0]} is fixed when Spark starts"
    elif signs:
        reason = str(signs[0])
    elif program:
        reason = "a program has a driver of its own"
    else:
        return EngineChoice(engine=EngineKind.CONNECT, reason="")
    return EngineChoice(engine=EngineKind.CLASSIC, reason=reason)
