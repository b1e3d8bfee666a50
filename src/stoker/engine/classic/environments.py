"""Python environments of jobs: installed once for each list of requirements, and cached by content.

Installing takes seconds to minutes, several task executors may want the same environment at once,
and any of them may die half-way. An environment is a directory on Python's search path. It is built
under another name and renamed when it is complete, so a directory under its final name is always
complete.

Each environment has a file lock, which the kernel releases with its holder. Who builds or removes
the environment holds it alone; the tasks that use the environment share it, so that an environment
in use is not removed.
"""

import asyncio
import fcntl
import hashlib
import os
import shutil
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from stoker.core.errors import StokerError
from stoker.core.failpoints import failpoint
from stoker.core.graph import ArtifactKind, Program
from stoker.core.ids import Ids
from stoker.engine.classic.package_sources import PackageSources
from stoker.engine.classic.requirement_lists import packages_in, relative_paths
from stoker.engine.contract import Task
from stoker.osproc.exit import ProcessExit
from stoker.osproc.supervised import run_supervised

_POLL_SECONDS = 0.1
_KEPT_OUTPUT = 4000
ANY_SOURCES = PackageSources()


class RequirementsNotInstalled(StokerError):
    """The installer failed; its output is in the message."""


class PythonEnvironments:
    def __init__(
        self,
        root: Path,
        ids: Ids,
        *,
        timeout: timedelta,
        kept: int,
        environment: Mapping[str, str],
        sources: PackageSources = ANY_SOURCES,
    ) -> None:
        """`environment`: the variables of the installer, which may run code of packages."""
        self._root = root
        self._ids = ids
        self._timeout = timeout
        self._kept = kept
        self._sources = sources
        self._environment = sources.variables(environment)

    async def install_for(self, task: Task, in_use: ExitStack) -> tuple[str, ...]:
        """Directories with the program's requirements and wheels; usually none.

        They are not removed before `in_use` is closed.
        """
        vertex = task.graph.vertex(task.region_id)
        if not isinstance(vertex, Program):
            return ()
        wheels = {
            artifact.name: task.artifacts[artifact.name]
            for artifact in task.graph.artifacts
            if artifact.kind is ArtifactKind.WHEEL
        }
        requirements = task.artifacts[vertex.requirements] if vertex.requirements else None
        if requirements is None and not wheels:
            return ()
        digests = [f"{a.name} {a.sha256}" for a in task.graph.artifacts if a.name in wheels]
        text = requirements.read_bytes() if requirements is not None else b""
        _refuse_relative_paths(text)
        self._refuse_sources(wheels)
        if requirements is not None and self._sources.packages_only:
            requirements = task.directory / "requirements.txt"
            requirements.write_text(_packages_only(text))
        name = environment_name(text, digests, self._sources.digest())
        wheel_directory = task.directory / "wheels"
        place = self._root / name
        await self._provide(place, requirements, _linked(wheels, wheel_directory), in_use)
        return (str(place),)

    def _refuse_sources(self, wheels: Iterable[str]) -> None:
        """Refuse an archive of source code that was sent as a wheel, where those are refused."""
        if self._sources.source_distributions:
            return
        for name in wheels:
            if not name.endswith(".whl"):
                raise RequirementsNotInstalled(
                    f"{name} is not a wheel, and this cluster installs wheels only "
                    "(python-environment.source-distributions); build a wheel and send it"
                )

    async def _provide(
        self, place: Path, requirements: Path | None, wheels: list[Path], in_use: ExitStack
    ) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        # Again if another process removes the environment before the lock on it is shared.
        while not await _use(place, in_use):
            async with _locked(place, fcntl.LOCK_EX):
                if not place.is_dir():  # noqa: ASYNC240
                    await self._build(place, requirements, wheels)
                    self._remove_oldest(place)

    async def _build(self, place: Path, requirements: Path | None, wheels: list[Path]) -> None:
        partial = place.with_name(f"{place.name}.{self._ids.nonce()}.partial")
        for leftover in self._root.glob(f"{place.name}.*.partial"):
            # Left by a process that died: this process holds the lock, so no other builds.
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            partial.mkdir()
            await self._install(partial, requirements, wheels)
            failpoint("environment.before-publishing")
            partial.rename(place)
            failpoint("environment.after-publishing")
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    async def _install(self, target: Path, requirements: Path | None, wheels: list[Path]) -> None:
        wanted = ["-r", str(requirements)] if requirements is not None else []
        command = [*_installer(), *self._sources.arguments(), "--target", str(target), *wanted]
        command += map(str, wheels)
        # A file, unlike a pipe, never blocks the installer.
        with tempfile.TemporaryFile() as output:
            code = await self._run(command, output)
            if code != 0:
                output.seek(0)
                said = output.read().decode(errors="replace").strip()[-_KEPT_OUTPUT:]
                raise RequirementsNotInstalled(
                    f"the job's requirements cannot be installed; correct them and submit the job "
                    f"again:\n{said or ProcessExit(code=code).describe()}"
                )

    async def _run(self, command: list[str], output: BinaryIO) -> int:
        try:
            return await run_supervised(
                *command,
                environment=self._environment,
                output=output,
                seconds=self._timeout.total_seconds(),
            )
        except TimeoutError:
            raise RequirementsNotInstalled(
                f"the job's requirements were not installed within {self._timeout}; submit the job "
                "again, or raise python-environment.timeout"
            ) from None

    def _remove_oldest(self, newest: Path) -> None:
        places = [p for p in self._root.iterdir() if p.is_dir() and not p.name.endswith(".partial")]
        places.sort(key=lambda place: place.stat().st_mtime, reverse=True)
        for place in places[max(self._kept, 1) :]:
            if place != newest:
                _remove_unless_in_use(place)


def _refuse_relative_paths(requirements: bytes) -> None:
    if found := relative_paths(requirements.decode(errors="replace")):
        raise RequirementsNotInstalled(
            f"the job's list of requirements names files that were not sent with the job "
            f"({'; '.join(found)}); send wheels with --wheel, or use absolute paths or URLs"
        )


def _packages_only(requirements: bytes) -> str:
    packages, others = packages_in(requirements.decode(errors="replace"))
    if others:
        raise RequirementsNotInstalled(
            "the job's list of requirements may only name packages with their versions on this "
            f"cluster (python-environment.packages-only), and it has {'; '.join(others)}; "
            "send wheels with --wheel, or ask the operator of the cluster"
        )
    return "".join(f"{package}\n" for package in packages)


def environment_name(requirements: bytes, wheels: Iterable[str], sources: bytes = b"") -> str:
    """Equal for equal content from the same sources on the same Python version and platform."""
    digest = hashlib.sha256(requirements + sources)
    for wheel in sorted(wheels):
        digest.update(b"\0" + wheel.encode())
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest.update(f"\0{version}\0{sysconfig.get_platform()}".encode())
    return digest.hexdigest()[:32]


def _linked(wheels: dict[str, Path], directory: Path) -> list[Path]:
    """Link wheels under their own names, which installers insist on."""
    if wheels:
        directory.mkdir(parents=True, exist_ok=True)
    for name, path in wheels.items():
        os.symlink(os.path.abspath(path), directory / name)
    return [directory / name for name in wheels]


def _installer() -> list[str]:
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


async def _use(place: Path, in_use: ExitStack) -> bool:
    """Return whether the environment exists; if so, keep it until `in_use` is closed."""
    async with _locked(place, fcntl.LOCK_SH) as lock:
        if not place.is_dir():  # noqa: ASYNC240
            return False
        os.utime(place)
        in_use.enter_context(lock.pop_all())
        return True


@asynccontextmanager
async def _locked(place: Path, kind: int) -> AsyncIterator[ExitStack]:
    """Hold the lock of an environment, for as long as the yielded stack is open."""
    with ExitStack() as lock:
        descriptor = _open_lock(place)
        lock.callback(os.close, descriptor)
        # Another process may hold it, so no event tells when it is released.
        while not _try_lock(descriptor, kind):  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS)
        yield lock


def _open_lock(place: Path) -> int:
    return os.open(f"{place}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_unless_in_use(place: Path) -> None:
    descriptor = _open_lock(place)
    try:
        if _try_lock(descriptor, fcntl.LOCK_EX):
            shutil.rmtree(place, ignore_errors=True)
            remove_packed(place)
    finally:
        os.close(descriptor)


def pack(environment: Path) -> Path:
    """Return the archive beside the environment, made on first use. Environments never change."""
    archive = _archive_of(environment)
    if archive.exists():
        return archive
    descriptor, aside = tempfile.mkstemp(
        dir=environment.parent, prefix=f"{environment.name}.", suffix=".tar.partial"
    )
    try:
        # Not compressed: it is sent to each executor only once.
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w") as tar:
            # Without a leading "./", which Spark takes for an attempt to escape the directory.
            for each in sorted(environment.iterdir()):
                tar.add(each, arcname=each.name)
        Path(aside).replace(archive)
    finally:
        Path(aside).unlink(missing_ok=True)
    return archive


def remove_packed(environment: Path) -> None:
    """Remove the archive, and unfinished ones of processes that died."""
    for file in environment.parent.glob(f"{environment.name}.*tar*"):
        file.unlink(missing_ok=True)


def _archive_of(environment: Path) -> Path:
    return environment.with_name(f"{environment.name}.tar")
