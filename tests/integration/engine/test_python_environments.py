"""Requirements are installed once, and completely or not at all."""

import asyncio
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.core.errors import InvalidOption
from stoker.core.failpoints import armed
from stoker.core.graph import Artifact, ArtifactKind, JobGraph, Program
from stoker.core.ids import AttemptId, Ids, JobId
from stoker.core.regions import regions_of
from stoker.engine.classic import environments as python_environments
from stoker.engine.classic.engine import ClassicEngine
from stoker.engine.classic.environments import PythonEnvironments, RequirementsNotInstalled
from stoker.engine.classic.options import ClassicOptions
from stoker.engine.classic.package_sources import package_sources
from stoker.engine.contract import Task
from stoker.engine.options import EngineOptions
from stoker.osproc.process_tree import start_time


def wheel(directory: Path, version: str, name: str = "thing") -> Path:
    path = directory / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in {**files, f"{info}/RECORD": record}.items():
            # Without the time of day: the same wheel has the same content.
            archive.writestr(zipfile.ZipInfo(file), content)
    return path


def task(root: Path, *files: Path, requirements: str | None = None) -> Task:
    script = root / "job.py"
    script.write_text("")
    listed = [script, *files]
    if requirements is not None:
        (root / "needs.txt").write_text(requirements)
        listed.append(root / "needs.txt")
    artifacts = tuple(
        Artifact(
            name=path.name,
            kind=ArtifactKind.WHEEL if path.suffix == ".whl" else ArtifactKind.FILE,
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
            size=path.stat().st_size,
        )
        for path in listed
    )
    program = Program(
        name="program", script="job.py", requirements="needs.txt" if requirements else None
    )
    graph = JobGraph(job_id=JobId("0" * 32), name="job", vertices=(program,), artifacts=artifacts)
    attempt = AttemptId(Ids().nonce())
    directory = root / attempt
    directory.mkdir()
    return Task(
        graph=graph,
        region=regions_of(graph)[0],
        attempt=attempt,
        attempt_number=0,
        directory=directory,
        materialized_root="",
        checkpoint_root="",
        artifacts={path.name: path for path in listed},
    )


@pytest.fixture
def environments(tmp_path: Path) -> PythonEnvironments:
    return PythonEnvironments(
        tmp_path / "environments",
        Ids(),
        timeout=timedelta(minutes=2),
        kept=2,
        environment=os.environ,
    )


async def install(environments: PythonEnvironments, *tasks: Task) -> list[tuple[str, ...]]:
    """Install for all tasks at once; none of them uses its environment afterwards."""
    with ExitStack() as in_use:
        installing = (environments.install_for(each, in_use) for each in tasks)
        return await asyncio.gather(*installing)


def installed_environments(root: Path) -> list[Path]:
    return [path for path in (root / "environments").iterdir() if path.is_dir()]


async def test_a_program_without_requirements_gets_no_environment(
    tmp_path: Path, environments: PythonEnvironments
) -> None:
    assert await install(environments, task(tmp_path)) == [()]


async def test_two_jobs_with_different_versions_have_environments_of_their_own(
    tmp_path: Path, environments: PythonEnvironments
) -> None:
    tasks = [task(tmp_path, wheel(tmp_path, version)) for version in ("1.0", "2.0")]
    first, second = await install(environments, *tasks)
    for (place,), version in ((first, "1.0"), (second, "2.0")):
        assert (Path(place) / "thing.py").read_text() == f"VERSION = '{version}'\n"


async def test_the_same_requirements_are_installed_once(
    tmp_path: Path, environments: PythonEnvironments
) -> None:
    wheel(tmp_path, "1.0")
    listed = f"--no-index\n--find-links {tmp_path}\nthing==1.0\n"
    tasks = [task(tmp_path, requirements=listed) for _ in range(3)]
    built = []
    with armed("environment.before-publishing", lambda: built.append(1)):
        places = await install(environments, *tasks)
    assert len(set(places)) == 1
    assert len(built) == 1


async def test_a_failed_installation_is_reported_in_the_words_of_the_installer(
    tmp_path: Path, environments: PythonEnvironments
) -> None:
    listed = f"--no-index\n--find-links {tmp_path}\nno-such-thing==1.0\n"
    with pytest.raises(RequirementsNotInstalled, match="no-such-thing"):
        await install(environments, task(tmp_path, requirements=listed))
    assert installed_environments(tmp_path) == []


async def test_an_installer_that_dies_silently_is_reported_with_its_signal(
    tmp_path: Path, environments: PythonEnvironments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        python_environments, "_installer", lambda: ["/bin/sh", "-c", "kill -KILL $$", "sh"]
    )
    with pytest.raises(RequirementsNotInstalled, match="killed by SIGKILL"):
        await install(environments, task(tmp_path, wheel(tmp_path, "1.0")))


async def test_a_daemon_that_the_build_of_a_package_starts_ends_with_the_installation(
    tmp_path: Path, environments: PythonEnvironments, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"
    script = (
        f'setsid sh -c "echo \\$\\$ > {pid}; sleep 600" & while [ ! -s {pid} ]; do sleep 0.01; done'
    )
    monkeypatch.setattr(python_environments, "_installer", lambda: ["/bin/sh", "-c", script, "sh"])
    await install(environments, task(tmp_path, wheel(tmp_path, "1.0")))
    assert start_time(int(pid.read_text())) is None


async def test_a_half_built_environment_is_never_used(
    tmp_path: Path, environments: PythonEnvironments
) -> None:
    def die() -> None:
        raise asyncio.CancelledError

    wanted = task(tmp_path, wheel(tmp_path, "1.0"))
    with armed("environment.before-publishing", die), pytest.raises(asyncio.CancelledError):
        await install(environments, wanted)
    assert installed_environments(tmp_path) == []
    again = task(tmp_path, tmp_path / "thing-1.0-py3-none-any.whl")
    ((place,),) = await install(environments, again)
    assert (Path(place) / "thing.py").exists()


async def test_a_published_environment_is_complete_although_its_installation_was_cancelled(
    tmp_path: Path, environments: PythonEnvironments
) -> None:
    def die() -> None:
        raise asyncio.CancelledError

    wanted = task(tmp_path, wheel(tmp_path, "1.0"))
    with armed("environment.after-publishing", die), pytest.raises(asyncio.CancelledError):
        await install(environments, wanted)
    (published,) = installed_environments(tmp_path)
    again = task(tmp_path, tmp_path / "thing-1.0-py3-none-any.whl")
    ((place,),) = await install(environments, again)
    assert Path(place).is_relative_to(published)
    assert (Path(place) / "thing.py").exists()


async def test_old_environments_are_deleted_to_make_room(
    tmp_path: Path, environments: PythonEnvironments
) -> None:
    for version in ("1.0", "2.0", "3.0"):
        await install(environments, task(tmp_path, wheel(tmp_path, version)))
    assert len(installed_environments(tmp_path)) == 2


async def test_an_environment_in_use_is_deleted_only_after_its_last_task(
    tmp_path: Path, environments: PythonEnvironments
) -> None:
    def wanted(version: str) -> Task:
        return task(tmp_path, wheel(tmp_path, version))

    first, last = ExitStack(), ExitStack()
    with first, last:
        ((place,), _) = [
            await environments.install_for(wanted("1.0"), in_use) for in_use in (first, last)
        ]
        await install(environments, wanted("2.0"))
        await install(environments, wanted("3.0"))
        assert Path(place).is_dir(), "two tasks use it"
        first.close()
        await install(environments, wanted("4.0"))
        assert Path(place).is_dir(), "one task uses it"
    await install(environments, wanted("5.0"))
    assert not Path(place).is_dir()


def source_distribution(directory: Path, version: str, name: str = "thing") -> Path:
    """One whose build leaves a trace in the directory."""
    trace = directory / "built"
    path = directory / f"{name}-{version}.tar.gz"
    setup = f"""
open({str(trace)!r}, "w").close()
from setuptools import setup
setup(name={name!r}, version={version!r}, py_modules=[{name!r}])
"""
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {"setup.py": setup, f"{name}.py": f"VERSION = {version!r}", "PKG-INFO": about}
    with tarfile.open(path, "w:gz") as archive:
        for file, content in files.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{file}")
            entry.size = len(content.encode())
            archive.addfile(entry, io.BytesIO(content.encode()))
    return path


@contextmanager
def index_of(*files: Path) -> Iterator[str]:
    """An index on loopback with these files of one package; yields its URL."""
    links = "".join(f'<a href="/files/{file.name}">{file.name}</a>' for file in files)
    pages = {"/simple/thing/": links.encode()}
    pages |= {f"/files/{file.name}": file.read_bytes() for file in files}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = pages.get(self.path)
            self.send_response(404 if content is None else 200)
            kind = "text/html" if self.path.endswith("/") else "application/octet-stream"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def only_from(tmp_path: Path, environment: dict[str, str], **options: Any) -> PythonEnvironments:
    return PythonEnvironments(
        tmp_path / "environments",
        Ids(),
        timeout=timedelta(minutes=2),
        kept=2,
        environment=environment,
        sources=package_sources(ClassicOptions(packages_only=True, **options)),
    )


@pytest.fixture(params=["uv", "pip"])
def installer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pip":
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([*pip[:3], "--version"], capture_output=True, check=False).returncode:
            pytest.skip("NOT TESTED: pip is not installed here")
        monkeypatch.setattr(python_environments, "_installer", lambda: pip)
    return str(request.param)


async def test_packages_come_from_the_index_of_the_cluster(tmp_path: Path, installer: str) -> None:
    """Whatever the environment of the task executor names."""
    for place in ("ours", "theirs"):
        (tmp_path / place).mkdir()
    with (
        index_of(wheel(tmp_path / "ours", "1.0")) as ours,
        index_of(wheel(tmp_path / "theirs", "2.0")) as theirs,
    ):
        environment = dict(os.environ) | {
            "PIP_EXTRA_INDEX_URL": theirs,
            "PIP_INDEX_URL": theirs,
            "UV_INDEX": theirs,
        }
        environments = only_from(tmp_path, environment, index_url=ours)
        [(place,)] = await install(environments, task(tmp_path, requirements="thing"))
        assert "1.0" in (Path(place) / "thing.py").read_text()
        other = task(tmp_path, requirements=f"--index-url {theirs}\nthing==2.0")
        with pytest.raises(RequirementsNotInstalled, match=r"line 1: --index-url.*send wheels"):
            await install(environments, other)


async def test_constraints_hold_for_all_jobs(tmp_path: Path, installer: str) -> None:
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("thing<2\n")
    for version in ("1.0", "2.0"):
        wheel(tmp_path, version)
    environments = only_from(
        tmp_path,
        dict(os.environ),
        index_url="no-index",
        find_links=(str(tmp_path),),
        constraints=constraints,
    )
    [(place,)] = await install(environments, task(tmp_path, requirements="thing"))
    assert "1.0" in (Path(place) / "thing.py").read_text()


async def test_no_code_of_a_source_distribution_runs_where_those_are_refused(
    tmp_path: Path, installer: str
) -> None:
    source_distribution(tmp_path, "3.0")
    environments = only_from(
        tmp_path,
        dict(os.environ),
        index_url="no-index",
        find_links=(str(tmp_path),),
        source_distributions=False,
    )
    with pytest.raises(RequirementsNotInstalled, match="thing"):
        await install(environments, task(tmp_path, requirements="thing"))
    assert not (tmp_path / "built").exists()
    wheel(tmp_path, "1.0")
    [(place,)] = await install(environments, task(tmp_path, requirements="thing "))
    assert "1.0" in (Path(place) / "thing.py").read_text()
    assert not (tmp_path / "built").exists()


async def test_source_code_that_is_sent_as_a_wheel_is_refused(tmp_path: Path) -> None:
    sent = task(tmp_path, source_distribution(tmp_path, "3.0"))
    artifacts = tuple(
        msgspec.structs.replace(each, kind=ArtifactKind.WHEEL) if "thing" in each.name else each
        for each in sent.graph.artifacts
    )
    sent = replace(sent, graph=msgspec.structs.replace(sent.graph, artifacts=artifacts))
    environments = only_from(tmp_path, dict(os.environ), source_distributions=False)
    with pytest.raises(RequirementsNotInstalled, match=r"thing-3\.0\.tar\.gz is not a wheel"):
        await install(environments, sent)
    assert not (tmp_path / "built").exists()


async def test_an_engine_installs_from_the_sources_of_its_options(tmp_path: Path) -> None:
    """No driver starts. Constraints that cannot be read stop the start."""
    wheel(tmp_path, "1.0")
    options = ClassicOptions(
        index_url="no-index", find_links=(str(tmp_path),), packages_only=True, warm_drivers=0
    )
    places = (tmp_path / "work", tmp_path / "logs")
    async with ClassicEngine.open(EngineOptions(), options, *places) as engine:
        wanted = task(tmp_path, requirements="thing")
        [(place,)] = await install(engine._environments, wanted)
        assert "1.0" in (Path(place) / "thing.py").read_text()
        with pytest.raises(RequirementsNotInstalled, match="packages-only"):
            await install(engine._environments, task(tmp_path, requirements="--pre"))
    broken = replace(options, constraints=tmp_path / "absent")
    with pytest.raises(InvalidOption, match="absent cannot be read"):
        async with ClassicEngine.open(EngineOptions(), broken, *places):
            pass
