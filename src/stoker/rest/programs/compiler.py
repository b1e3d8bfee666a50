"""`python -m stoker.rest.programs.compiler DIRECTORY`: compile an uploaded program to a job graph.

Building the graph runs code of the user. That happens in this separate process, whose memory and
time are limited, so that a crash, a leak or an endless loop does not stop a master.
"""

import os
import resource
import shutil
import sys
import zipfile
from pathlib import Path

import msgspec

from stoker.core.errors import InvalidInput, StokerError
from stoker.core.graph import Program
from stoker.core.ids import JobId
from stoker.core.values import Value
from stoker.pipeline.drafts import JobSettings
from stoker.pipeline.load import load_job

REQUEST = "request.json"
ANSWER = "answer.json"
GRAPH = "graph.json"
_JOB_SUFFIXES = (".py", ".yml", ".yaml", ".sql")
_ARCHIVES = (".zip", ".whl")
_MAX_UNPACKED = 1024 * 1024 * 1024
"""Limit in bytes: a small archive could otherwise fill the disk of the master."""


class CompileRequest(Value):
    file: str
    entry: str | None = None
    arguments: tuple[str, ...] = ()
    configuration: dict[str, str] = {}
    job_id: JobId | None = None
    memory_bytes: int = 0


class CompileAnswer(Value):
    error: str | None = None
    files: dict[str, str] = {}
    """Name of each artifact's copy in the directory, by its SHA-256."""


def main() -> None:
    directory = Path(sys.argv[1])
    request = msgspec.json.decode((directory / REQUEST).read_bytes(), type=CompileRequest)
    if request.memory_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (request.memory_bytes, request.memory_bytes))
    os.chdir(directory)
    try:
        answer = _compile(directory, request)
    except StokerError as error:
        answer = CompileAnswer(error=error.message)
    except (MemoryError, RecursionError) as error:
        answer = CompileAnswer(error=f"the program exceeds its limits: {type(error).__name__}")
    (directory / ANSWER).write_bytes(msgspec.json.encode(answer))


def _compile(directory: Path, request: CompileRequest) -> CompileAnswer:
    file = directory / request.file
    if file.suffix in _ARCHIVES:
        job, entry = _unpack(file, directory / "unpacked", request.entry)
    else:
        job, entry = file, request.entry
    settings = JobSettings(
        arguments=request.arguments,
        job_id=request.job_id,
        configuration=request.configuration,
        python_files=(file,) if file.suffix == ".zip" else (),
        wheels=(file,) if file.suffix == ".whl" else (),
    )
    # Relative: error messages name the file as its author does, and not this directory.
    target = str(job.relative_to(directory))
    loaded = load_job(f"{target}:{entry}" if entry else target, settings)
    graph = loaded.graph
    program = graph.vertices[0]
    if isinstance(program, Program):
        shown = file.name if job == file else f"{file.name}/{job.name}"
        program = msgspec.structs.replace(program, path=shown)
        # In an archive, the script of every program may be called `__main__.py`.
        graph = msgspec.structs.replace(graph, name=file.stem, vertices=(program,))
    (directory / GRAPH).write_bytes(msgspec.json.encode(graph))
    # Some of the files are temporary and end with this process, so all are copied.
    copies = {}
    for number, (sha256, path) in enumerate(loaded.files_by_hash.items()):
        name = f"artifact-{number}"
        shutil.copyfile(path, directory / name)
        copies[sha256] = name
    return CompileAnswer(files=copies)


def _unpack(archive: Path, target: Path, entry: str | None) -> tuple[Path, str | None]:
    """Unpack the archive and find its job file. `entry` is a path or module, maybe `:pipeline`."""
    try:
        with zipfile.ZipFile(archive) as opened:
            if sum(member.file_size for member in opened.infolist()) > _MAX_UNPACKED:
                raise InvalidInput(f"{archive.name} holds more than {_MAX_UNPACKED} bytes")
            opened.extractall(target)
    except (zipfile.BadZipFile, OSError, RuntimeError) as error:
        raise InvalidInput(f"{archive.name} cannot be unpacked: {error}") from error
    path, _, pipeline = (entry or "__main__.py").partition(":")
    for candidate in (
        path,
        path.replace(".", "/") + ".py",
        path.replace(".", "/") + "/__main__.py",
        *(("__main__.py",) if path == archive.stem else ()),
    ):
        found = (target / candidate).resolve()
        inside = found.is_relative_to(target.resolve())
        if inside and found.is_file() and found.suffix in _JOB_SUFFIXES:
            return target / found.relative_to(target.resolve()), pipeline or None
    jobs = sorted(each.name for each in target.iterdir() if each.suffix in _JOB_SUFFIXES)
    raise InvalidInput(
        f"{archive.name} has no {path}; name the job file with entryClass"
        + (f", for example {jobs[0]}" if jobs else "")
    )


if __name__ == "__main__":
    main()
