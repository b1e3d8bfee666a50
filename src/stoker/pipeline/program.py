"""A program: any PySpark script, run as it is, as a job with one vertex.

The client never runs the script. It reads the syntax tree to find the modules and packages beside
the script that it imports, directly or through others, and sends them along.
"""

import ast
import atexit
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from stoker.core.errors import InvalidInput
from stoker.core.graph import EngineKind, JobGraph, Program
from stoker.core.ids import Ids
from stoker.pipeline.artifacts import describe_files
from stoker.pipeline.building import LoadedJob, checked_job
from stoker.pipeline.drafts import JobDraft, JobSettings
from stoker.pipeline.engine_choice import choose_engine
from stoker.pipeline.local_modules import imported_modules, parse_source

PROGRAM_VERTEX = "program"


def load_program(script: Path, tree: ast.Module, settings: JobSettings) -> LoadedJob:
    """The job that runs the script. Raises InvalidJobGraph with all faults; runs nothing."""
    choice = choose_engine(settings.engine, tree, settings.configuration, is_program=True)
    if choice.engine is EngineKind.CONNECT and settings.requirements is not None:
        raise InvalidInput(
            "--requirements needs a driver of the job's own: leave --engine connect out"
        )
    requirements = () if settings.requirements is None else (settings.requirements,)
    files = JobDraft(
        name=settings.name or script.stem,
        vertices=(),
        python_files=(*settings.python_files, *_modules_to_add(script, tree, settings)),
        wheels=tuple(settings.wheels),
        files=(script, *requirements, *settings.files),
    )
    described = describe_files(files, Path.cwd())
    graph = JobGraph(
        job_id=settings.job_id if settings.job_id is not None else Ids().job(),
        name=files.name,
        vertices=(_vertex(script, settings),),
        configuration=dict(settings.configuration),
        artifacts=tuple(artifact for artifact, _ in described.artifacts),
        engine=choice.engine,
        engine_reason=choice.reason,
    )
    return checked_job(graph, described.faults, described)


def _vertex(script: Path, settings: JobSettings) -> Program:
    return Program(
        name=PROGRAM_VERTEX,
        script=script.name,
        path=str(script),
        arguments=tuple(settings.arguments),
        environment=dict(settings.environment),
        requirements=settings.requirements.name if settings.requirements is not None else None,
    )


def _modules_to_add(script: Path, tree: ast.Module, settings: JobSettings) -> list[Path]:
    """Modules beside the script, which `python script.py` would have found there."""
    given = {path.name for path in settings.python_files}
    added = []
    for path in local_modules_of(script, tree):
        if path.name in given or f"{path.name}.zip" in given:
            continue
        added.append(zip_package(path, _temporary_directory()) if path.is_dir() else path)
    return added


def _temporary_directory() -> Path:
    """Deleted when the client's process ends: by then the archive is uploaded."""
    directory = Path(tempfile.mkdtemp(prefix="stoker-program-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


_SAME_TIME = (1980, 1, 1, 0, 0, 0)
"""Time of every file in an archive, so that equal content makes equal archives."""


def local_modules_of(script: Path, tree: ast.Module) -> list[Path]:
    """Modules and packages of the script's directory that it needs, directly or through others."""
    directory = script.absolute().parent
    found: dict[str, Path] = {}
    waiting = list(_roots(tree))
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        path = _located(directory, name)
        if path is None or path == script.absolute():
            continue
        found[name] = path
        for file in _sources(path):
            # A file that is not Python fails where it is imported, with Python's own message.
            with suppress(SyntaxError, ValueError, OSError):
                waiting.extend(_roots(parse_source(file.read_bytes())))
    return sorted(found.values())


def zip_package(package: Path, target_directory: Path) -> Path:
    """An archive from which Python can import the package."""
    target = target_directory / f"{package.name}.zip"
    # Not compressed: the compressed bytes would depend on the version of zlib.
    with zipfile.ZipFile(target, "w") as archive:
        for file in _files(package):
            entry = zipfile.ZipInfo(str(file.relative_to(package.parent)), _SAME_TIME)
            archive.writestr(entry, file.read_bytes())
    return target


def _roots(tree: ast.Module) -> Iterator[str]:
    for name, _ in imported_modules(tree):
        yield name.split(".")[0]


def _located(directory: Path, name: str) -> Path | None:
    if (directory / name / "__init__.py").is_file():
        return directory / name
    module = directory / f"{name}.py"
    return module if module.is_file() else None


def _sources(path: Path) -> list[Path]:
    return [path] if path.is_file() else [f for f in _files(path) if f.suffix == ".py"]


def _files(package: Path) -> list[Path]:
    found = []
    for directory, folders, names in os.walk(package):
        folders[:] = [folder for folder in folders if folder != "__pycache__"]
        found += [Path(directory, name) for name in names]
    return sorted(found)
