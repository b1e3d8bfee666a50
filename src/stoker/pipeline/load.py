"""Loads a job from a file, a Pipeline, SQL text or a finished graph.

The command line, the client and the compiler of uploaded programs all load jobs here, so that the
same file gives the same job, whoever submits it. The order of the steps matters:

1. A file is read once. A Python file is parsed once, and a program is recognized by its
   imports, before anything of it runs.
2. The submitter's settings are laid over the draft before it is assembled, because parameters,
   files and configuration are validated together.
3. The job gets the directory of its caller. Relative paths of sources and sinks become absolute in
   it, after parameters are filled in: only then does `${folder}/x` say whether it is relative.
4. The engine is chosen from the final configuration.
5. Queue, priority, slots and resources come last, because they are validated against the graph
   that is submitted.
"""

import ast
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import msgspec

from stoker.core.errors import InvalidInput
from stoker.core.graph import JobGraph
from stoker.core.options import read_pair
from stoker.core.spark_paths import describe_directory, is_relative, with_absolute_paths
from stoker.pipeline.building import LoadedJob, assemble
from stoker.pipeline.demands import with_demands
from stoker.pipeline.drafts import JobDraft, JobSettings, UserFunction
from stoker.pipeline.engine_choice import with_engine
from stoker.pipeline.pipeline import Pipeline
from stoker.pipeline.program import load_program
from stoker.pipeline.python_file import (
    choose_pipeline,
    function_in,
    is_pipeline,
    parse,
    run_file,
    script_surroundings,
)
from stoker.pipeline.sql import script_draft
from stoker.pipeline.texts import refuse
from stoker.pipeline.yaml_job import yaml_draft

_YAML = (".yml", ".yaml")
_LONGEST_SHOWN = 300
_NO_SETTINGS = JobSettings()


@dataclass(frozen=True)
class SqlText:
    """SQL statements that do not come from a file."""

    script: str
    default_name: str
    """Name of the job unless the script or the settings name it."""


Loadable = str | Path | Pipeline | SqlText | JobGraph
"""A str or Path names a file; `FILE.py:pipeline` names one of several pipelines in it."""


def load_job(job: Loadable, settings: JobSettings = _NO_SETTINGS) -> LoadedJob:
    """Raises InvalidInput, for a fault of the graph its subclass InvalidJobGraph."""
    match job:
        case JobGraph():
            graph = _with_caller(job, settings)
            return LoadedJob(graph=with_demands(graph, **settings.demands))
        case Pipeline():
            return _complete(_assemble(job.draft(), Path.cwd(), settings), None, settings)
        case SqlText(script, default_name):
            draft = script_draft(script, file="the script", default_name=default_name)
            return _complete(_assemble(draft, Path.cwd(), settings), None, settings)
        case str() | Path():
            return _load_file(*_file_and_pipeline(str(job)), settings)
        case _:
            raise InvalidInput(
                f"a {type(job).__name__} is not a job: give a Pipeline, a JobGraph, or the path "
                "of a Python, YAML or SQL file"
            )


def parse_params(items: Sequence[str]) -> dict[str, str]:
    """`--param` values, each `name=value`."""
    params: dict[str, str] = {}
    for item in items:
        pair = read_pair(item)
        if pair is None:
            raise InvalidInput(f"--param {item}: write it as name=value")
        name, value = pair
        if name in params:
            raise InvalidInput(f"--param {name} is given twice; give it once")
        params[name] = value
    return params


def _load_file(file: Path, pipeline: str | None, settings: JobSettings) -> LoadedJob:
    text = read_job_file(file)
    tree = parse(text, file) if file.suffix == ".py" else None
    is_program = settings.is_program
    if tree is not None and (not is_pipeline(tree) if is_program is None else is_program):
        _check_program(file, pipeline, settings)
        program = load_program(file, tree, settings)
        graph = _with_caller(program.graph, settings)
        return replace(program, graph=with_demands(graph, **settings.demands))
    _check_pipeline(file, settings)
    with ExitStack() as surroundings:
        if tree is not None or file.suffix in _YAML:
            surroundings.enter_context(script_surroundings(file, settings.arguments))
        draft = _file_draft(file, text, tree, pipeline, settings.arguments)
        loaded = _assemble(draft, file.absolute().parent, settings)
    return _complete(loaded, tree, settings)


def _check_program(script: Path, pipeline: str | None, settings: JobSettings) -> None:
    if settings.params:
        raise InvalidInput(
            f"{script.name}: a program has no parameters, so it cannot use --param "
            f"{next(iter(settings.params))}; write its arguments after its name"
        )
    # Flink's tools send the file's own name as the entry class.
    if pipeline not in (None, script.stem):
        raise InvalidInput(
            f"{script.name}: there is no pipeline {pipeline!r}: the file is a program, which "
            "starts at its first line; leave entryClass (-c, FILE.py:NAME) out"
        )


def _check_pipeline(file: Path, settings: JobSettings) -> None:
    given = ["--requirements"] if settings.requirements is not None else []
    given += [f"--env {name}" for name in settings.environment if name != "PYTHONPATH"]
    if "PYTHONPATH" in settings.environment:
        given.append("PYTHONPATH (--env, --pyPythonPath)")
    if given:
        is_or_are = "is" if len(given) == 1 else "are"
        raise InvalidInput(
            f"{file.name}: {' and '.join(given)} {is_or_are} for programs, which have a process of "
            "their own, and this is not one; give what its functions import with --py-file FILE.py "
            "or --wheel FILE.whl"
        )


def _file_draft(
    file: Path,
    text: str,
    tree: ast.Module | None,
    pipeline: str | None,
    arguments: Sequence[str],
) -> JobDraft:
    if tree is not None:
        return choose_pipeline(run_file(file, tree), file, pipeline).draft()
    if pipeline not in (None, file.stem):
        raise InvalidInput(f"{file.name}:{pipeline}: only a Python file can hold several jobs")
    if arguments:
        raise InvalidInput(
            f"{file.name}: it takes no arguments, but got {' '.join(arguments)}; "
            "use --param name=value"
        )
    if file.suffix in _YAML:
        return yaml_draft(
            text,
            file=file.name,
            default_name=file.stem,
            load_function=_FunctionFiles(file.parent).function,
        )
    return script_draft(text, file=file.name, default_name=file.stem)


def _assemble(draft: JobDraft, base_directory: Path, settings: JobSettings) -> LoadedJob:
    lines = dict(draft.lines)
    if settings.configuration:
        # A fault may be that of a setting that the submitter gave.
        lines.pop("configuration", None)
    draft = replace(
        draft,
        lines=lines,
        name=settings.name if settings.name is not None else draft.name,
        configuration={**draft.configuration, **settings.configuration},
        python_files=(*draft.python_files, *settings.python_files),
        wheels=(*draft.wheels, *settings.wheels),
        files=(*draft.files, *settings.files),
    )
    return assemble(
        draft, job_id=settings.job_id, params=settings.params, base_directory=base_directory
    )


def _complete(loaded: LoadedJob, tree: ast.Module | None, settings: JobSettings) -> LoadedJob:
    loaded = replace(loaded, graph=_with_caller(loaded.graph, settings))
    loaded = with_engine(loaded, tree, settings.engine)
    return replace(loaded, graph=with_demands(loaded.graph, **settings.demands))


def _with_caller(graph: JobGraph, settings: JobSettings) -> JobGraph:
    if settings.directory is None or graph.caller is not None:
        return graph
    directory = settings.directory

    def resolve(path: str, _place: str, _was_relative: bool) -> str:
        return str(directory / path) if is_relative(path) else path

    graph = msgspec.structs.replace(graph, caller=describe_directory(directory))
    return with_absolute_paths(graph, resolve)


class _FunctionFiles:
    """Loads the functions of a YAML job from Python files; each file runs once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._modules: dict[Path, ModuleType] = {}

    def function(self, reference: str) -> UserFunction:
        path, colon, name = reference.rpartition(":")
        if not colon or not path.endswith(".py") or not name:
            raise refuse(
                f"function '{reference}'", "it does not name a function", "write FILE.py:function"
            )
        file = self._directory / path
        if file not in self._modules:
            self._modules[file] = run_file(file, parse(read_job_file(file), file))
        return function_in(self._modules[file], name, reference)


def _file_and_pipeline(target: str) -> tuple[Path, str | None]:
    # Unlike Path.exists, this does not fail for text that is too long to be a path.
    if not os.path.exists(target):
        path, colon, wanted = target.rpartition(":")
        if colon and wanted.isprintable() and path.endswith((".py", *_YAML, ".sql")):
            return Path(path), wanted
    return Path(target), None


def read_job_file(file: Path) -> str:
    shown = _shortened(str(file))
    if os.path.isdir(file):
        raise InvalidInput(f"{shown}: this is a directory; name a .py, .yml or .sql file in it")
    if file.suffix not in {".py", ".sql", *_YAML}:
        raise InvalidInput(
            f"{shown}: a job is a .py, .yml, .yaml or .sql file, and this is none of them"
        )
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise InvalidInput(
            f"{shown}: there is no such file (looked in {Path.cwd()})", file=str(file)
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{shown}: it is not text in UTF-8; save it as UTF-8") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"{shown}: it cannot be read: {reason}") from error


def _shortened(path: str) -> str:
    """The path; only both ends of a very long one, which may be SQL in place of a file."""
    return path if len(path) <= _LONGEST_SHOWN else f"{path[:80]}…{path[-80:]}"
