"""A user's Python file: parsed, and run in the client's process to learn what it defines."""

import ast
import os
import re
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType

from stoker.core.errors import InvalidInput, InvalidJobGraph, StokerError
from stoker.core.extras import remedy_for
from stoker.core.faults import Fault, did_you_mean
from stoker.pipeline.drafts import UserFunction
from stoker.pipeline.local_modules import (
    JOB_MODULE,
    imported_modules,
    is_installed,
    local_modules,
    parse_source,
)
from stoker.pipeline.pipeline import Pipeline
from stoker.pipeline.texts import refuse
from stoker.pipeline.udf_types import types_of_udfs_as_text

_SURROUNDINGS_LOCK = threading.RLock()
"""Reentrant, because a file that is being run may load another one."""
_NO_SESSION = re.compile(r"\[(SESSION_OR_CONTEXT_NOT_EXISTS|NO_ACTIVE_OR_DEFAULT_SESSION)\]")
"""How PySpark's error begins when code outside of any session needs one."""
_OWN_CODE = f"{Path(__file__).parents[1]}{os.sep}"


def parse(source: str, file: Path) -> ast.Module:
    """The syntax tree. Raises InvalidInput with the line that is not Python."""
    try:
        return parse_source(source, filename=str(file))
    except SyntaxError as error:
        raise _syntax_error(file, error) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise InvalidInput(
            f"{file.name}: Python cannot read it: {error}; correct it", file=str(file)
        ) from error


def is_pipeline(tree: ast.Module) -> bool:
    """True for a file that uses Stoker's authoring API; any other file is a program."""
    uses_stoker = any(name.split(".")[0] == "stoker" for name, _ in imported_modules(tree))
    return uses_stoker and not _only_connects(tree)


def _only_connects(tree: ast.Module) -> bool:
    """Whether the file calls a cluster, and never mentions the class that defines jobs."""
    used: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="stoker"), attr=name):
                used.add(name)
            case ast.ImportFrom(module="stoker", names=aliases):
                used.update(alias.name for alias in aliases)
            case ast.Name(id=name) | ast.Attribute(attr=name) if name == "Pipeline":
                used.add(name)
    return not used.isdisjoint({"connect", "connect_async"}) and "Pipeline" not in used


@contextmanager
def script_surroundings(file: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Sets `sys.path` and `sys.argv` as `python FILE arguments` does; restores them at the end.

    Modules from the job's directory are removed from `sys.modules` at the end, because the next
    job may have other modules of the same names. These variables belong to the whole process, so
    threads take turns.
    """
    directory = file.absolute().parent
    with _SURROUNDINGS_LOCK:
        before = (list(sys.path), list(sys.argv), set(sys.modules))
        sys.path.insert(0, str(directory))
        sys.argv = [str(file), *arguments]
        try:
            yield
        finally:
            sys.path[:], sys.argv, known = before
            for module in local_modules(directory):
                if module.__name__ not in known:
                    sys.modules.pop(module.__name__, None)


def run_file(file: Path, tree: ast.Module) -> ModuleType:
    """Runs the file as a module. Raises InvalidInput with the user's part of the traceback."""
    module = ModuleType(f"{JOB_MODULE}{file.stem}")
    module.__file__ = str(file.absolute())
    sys.modules[module.__name__] = module
    try:
        with types_of_udfs_as_text(tree):
            exec(compile(tree, str(file), "exec", dont_inherit=True), module.__dict__)
    except StokerError as error:
        raise _located(file, error) from error
    except SyntaxError as error:
        raise _syntax_error(file, error) from error
    except SystemExit as error:
        line = _last_line_in(file, error.__traceback__)
        raise InvalidInput(
            f"{file.name} line {line}: it ended the program (exit code {error.code}) before its "
            "graph was known; check the arguments after the file's name",
            file=str(file),
            line=line,
        ) from error
    except Exception as error:  # user code can raise anything
        raise _raised(file, error) from error
    return module


def choose_pipeline(module: ModuleType, file: Path, wanted: str | None) -> Pipeline:
    variables = {name: value for name, value in vars(module).items() if isinstance(value, Pipeline)}
    distinct = {id(pipeline): pipeline for pipeline in variables.values()}
    if not distinct:
        raise InvalidInput(
            f"{file.name}: there is no Pipeline in it; write "
            '`from stoker import Pipeline` and `orders = Pipeline("orders")` at its top level',
            file=str(file),
        )
    names = {**{p.name: p for p in distinct.values()}, **variables}
    # Flink's tools send the file's own name when they mean the file as a whole.
    if wanted is not None and (wanted in names or wanted != file.stem):
        if wanted not in names:
            raise InvalidInput(
                f"{file.name}: there is no Pipeline '{wanted}' in it "
                f"({did_you_mean(wanted, variables)})",
                file=str(file),
            )
        return names[wanted]
    if len(distinct) > 1:
        raise InvalidInput(
            f"{file.name}: there are {len(distinct)} pipelines in it: "
            f"{', '.join(sorted(variables))}; choose one, as in {file.name}:{min(variables)}",
            file=str(file),
        )
    return next(iter(distinct.values()))


def function_in(module: ModuleType, name: str, reference: str) -> UserFunction:
    function = vars(module).get(name)
    if not callable(function):
        callables = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise refuse(
            f"function '{reference}'",
            f"there is no function '{name}' in the file",
            did_you_mean(name, callables),
        )
    found: UserFunction = function
    return found


def _located(file: Path, error: StokerError) -> StokerError:
    place = f"{file.name} line {_last_line_in(file, error.__traceback__)}"
    if isinstance(error, InvalidJobGraph):
        return InvalidJobGraph([f"{place}: {fault}" for fault in error.facts["faults"]])
    return InvalidInput(f"{place}: {error}", file=str(file))


def _syntax_error(file: Path, error: SyntaxError) -> InvalidInput:
    where = Path(error.filename).name if error.filename else file.name
    line = (error.text or "").strip()
    fault = Fault(
        f"{where} line {error.lineno} column {error.offset}",
        f"this is not Python {sys.version_info.major}.{sys.version_info.minor}: {error.msg}",
        f"in: {line}" if line else "correct it",
    )
    return InvalidInput(str(fault), file=str(file), line=error.lineno)


def _raised(file: Path, error: Exception) -> InvalidInput:
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OWN_CODE, "<frozen "))
        and not is_installed(Path(frame.filename))
    ]
    line = _last_line_in(file, error.__traceback__)
    shown = "".join(traceback.format_list(frames)).rstrip()
    return InvalidInput(
        f"{file.name} line {line}: {_fault_of(error)}\n{shown}",
        file=str(file),
        line=line,
        error=type(error).__name__,
    )


def _fault_of(error: Exception) -> str:
    if _needs_session(error):
        return (
            "this needs a Spark session, and there is none while the file is loaded; move it into "
            "a function of the job, which takes the session as its parameter 'spark', or, for a "
            "schema, write types, as in StructType([StructField('id', LongType())])"
        )
    summary = traceback.format_exception_only(error)[-1].strip()
    remedy = remedy_for(error) if isinstance(error, ImportError) else None
    if remedy is None and isinstance(error, ModuleNotFoundError):
        remedy = "install it here, and give it to the job with --wheel or --py-file"
    return f"the file raised {summary}" + (f" ({remedy})" if remedy is not None else "")


def _needs_session(error: Exception) -> bool:
    """Whether PySpark failed for lack of a session; in some places it only asserts that one is."""
    if not isinstance(error, AssertionError):
        return _NO_SESSION.match(str(error)) is not None
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and f"{os.sep}pyspark{os.sep}" in frames[-1].filename


def _last_line_in(file: Path, trace: TracebackType | None) -> int:
    frames = traceback.extract_tb(trace)
    lines = [frame.lineno or 0 for frame in frames if frame.filename == str(file)]
    return lines[-1] if lines else 0
