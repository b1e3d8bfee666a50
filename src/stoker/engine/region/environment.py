"""Prepare the process of a task for its job: compare versions, place files, load functions."""

import importlib
import importlib.metadata
import os
import pickle
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from stoker.core.graph import Artifact, ArtifactKind, Environment, PythonFunction
from stoker.engine.failures import MODULE_HINT, CannotRun


def check_versions(environment: Environment | None) -> None:
    """Refuse functions that were pickled by another Python or with other major versions."""
    if environment is None:
        return
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    differing: list[str] = []
    if environment.python != here:
        differing.append(f"Python {environment.python} there, {here} here")
    for library, version in environment.libraries.items():
        installed = _installed_version(library)
        if installed is None:
            differing.append(f"{library} {version} there, not installed here")
        elif _major(installed) != _major(version):
            differing.append(f"{library} {version} there, {installed} here")
    if differing:
        raise CannotRun(
            "UserCodeMismatch",
            "the job's functions were written with other versions than this task executor has: "
            + "; ".join(differing)
            + "; submit from an environment like the task executor's, or change the latter",
        )


def _installed_version(library: str) -> str | None:
    loaded = getattr(sys.modules.get(library), "__version__", None)
    if loaded is not None:
        # The loaded version is the one that counts. Reading metadata takes longer than a small
        # function runs.
        return str(loaded)
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def _major(version: str) -> str:
    return version.split(".", maxsplit=1)[0]


def words_of(function: PythonFunction, vertex: str) -> str:
    """The function in an error message; it often has the name of its vertex."""
    name = "" if function.name == vertex else f"{function.name} "
    return f"the function {name}of {vertex}"


def load_function(function: PythonFunction, vertex: str) -> Callable[..., Any]:
    try:
        loaded = cloudpickle.loads(function.payload)
    # Unpickling imports modules and runs the user's module code, which may raise anything.
    except Exception as error:
        hint = ""
        if isinstance(error, ModuleNotFoundError):
            hint = f"; {MODULE_HINT}"
        elif isinstance(error, pickle.UnpicklingError):
            hint = "; its bytes are damaged, submit the job again"
        raise CannotRun(
            type(error).__name__,
            f"{words_of(function, vertex)} cannot be loaded: {type(error).__name__}: {error}{hint}",
        ) from error
    if not callable(loaded):
        raise CannotRun(
            "TypeError",
            f"{function.name} of {vertex} is a {type(loaded).__name__}, not a function",
        )
    return loaded  # type: ignore[no-any-return]


def place_artifacts(
    session: Any, artifacts: Iterable[Artifact], files: Mapping[str, str], directory: Path
) -> None:
    """Give the job's files to this process and Spark's workers, under the names the job uses."""
    for artifact in artifacts:
        source = files.get(artifact.name)
        if source is None:
            raise CannotRun("MissingArtifact", f"the file {artifact.name} did not arrive")
        match artifact.kind:
            case ArtifactKind.PYTHON:
                _add_python(session, _link(source, directory / "python", artifact.name))
            case ArtifactKind.WHEEL:
                _refuse_compiled(artifact.name, source)
                # A wheel is a zip archive, but workers import only from files named .zip.
                _add_python(session, _link(source, directory / "python", artifact.name + ".zip"))
            case ArtifactKind.FILE:
                session.addArtifacts(str(_link(source, directory, artifact.name)), file=True)


def _add_python(session: Any, path: Path) -> None:
    session.addArtifacts(str(path), pyfile=True)
    sys.path.insert(0, str(path.parent if path.suffix == ".py" else path))
    importlib.invalidate_caches()


def _link(source: str, directory: Path, name: str) -> Path:
    target = directory / Path(name).name
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        os.symlink(os.path.abspath(source), target)
    return target


def _refuse_compiled(name: str, path: str) -> None:
    try:
        with zipfile.ZipFile(path) as wheel:
            compiled = [member for member in wheel.namelist() if member.endswith((".so", ".pyd"))]
    except zipfile.BadZipFile as error:
        raise CannotRun("BadWheel", f"the wheel {name} cannot be read: {error}") from error
    if compiled:
        raise CannotRun(
            "CompiledWheel",
            f"the wheel {name} has compiled code ({compiled[0]}), which Python cannot load from "
            "an archive; install it on the task executors instead",
        )
