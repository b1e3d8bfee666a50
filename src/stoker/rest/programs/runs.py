"""Compile an uploaded program to a job graph, in a process of its own (`compiler.py`).

That process runs code of the user. So it gets no environment variables that may be secret, its
memory and time are limited, and it is killed with everything that it has started, daemons included.
Its files are read as those of a stranger.
"""

import asyncio
import os
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from stoker.core.errors import InvalidInput, StorageUnavailable
from stoker.core.graph import JobGraph, Restore
from stoker.core.ids import Ids, JobId
from stoker.core.job_options import SHUFFLE_PARTITIONS
from stoker.core.values import decode_json
from stoker.osproc.regular_file import FileTooLarge, NotRegular, open_regular, read_regular
from stoker.osproc.supervised import run_supervised
from stoker.pipeline.demands import DemandOverrides, with_demands
from stoker.rest.options import RestOptions
from stoker.rest.programs.compiler import ANSWER, GRAPH, REQUEST, CompileAnswer, CompileRequest
from stoker.rest.programs.store import ProgramStore, StoredProgram
from stoker.rest.requests.uploads import PROGRAM_PREFIX, make_temporary_directory

_PASSED_VARIABLES = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "JAVA_HOME", "TZ")
"""Environment variables that the compiler gets; others may be secrets of the master."""
_OUTPUT_BYTES = 2000
"""How much of the end of the compiler's output an error message quotes."""
_MAX_ANSWER_BYTES = 16 * 1024 * 1024
_ARTIFACT = re.compile(r"artifact-[0-9]+")


@dataclass(frozen=True, kw_only=True)
class ProgramArguments:
    entry: str | None = None
    arguments: tuple[str, ...] = ()
    parallelism: int | None = None
    configuration: dict[str, str]
    job_id: JobId | None = None
    restore: Restore | None = None
    demands: DemandOverrides = field(default_factory=DemandOverrides)

    def settings(self) -> dict[str, str]:
        """Settings of the Spark session; parallelism is the number of its shuffle partitions."""
        if self.parallelism is None:
            return self.configuration
        return {SHUFFLE_PARTITIONS: str(self.parallelism)} | self.configuration


@dataclass(frozen=True, kw_only=True)
class CompiledProgram:
    graph: JobGraph
    files: dict[str, Path]
    """Path of each artifact by its SHA-256."""


@asynccontextmanager
async def compile_program(
    programs: ProgramStore,
    program: StoredProgram,
    arguments: ProgramArguments,
    options: RestOptions,
    ids: Ids,
) -> AsyncIterator[CompiledProgram]:
    """Compile a program. The files of the result are deleted when the context ends."""
    try:
        directory = make_temporary_directory(PROGRAM_PREFIX, options.upload_directory)
    except OSError as error:
        place = options.upload_directory or tempfile.gettempdir()
        raise StorageUnavailable(
            f"a program cannot be loaded: no directory can be made in {place}: {error.strerror}; "
            "correct this, or set web.upload.dir to another directory"
        ) from error
    try:
        await programs.fetch(program, directory / program.name)
        request = CompileRequest(
            file=program.name,
            entry=arguments.entry,
            arguments=arguments.arguments,
            configuration=arguments.settings(),
            job_id=arguments.job_id or ids.job(),
            memory_bytes=int(options.program_memory),
        )
        (directory / REQUEST).write_bytes(msgspec.json.encode(request))
        await _run(directory, program, options.program_timeout.total_seconds())
        found = await asyncio.to_thread(_result, directory, program, options)
        yield replace(found, graph=with_demands(found.graph, **arguments.demands))
    finally:
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


async def _run(directory: Path, program: StoredProgram, seconds: float) -> None:
    environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    with (directory / "output").open("wb") as output:
        try:
            await run_supervised(
                sys.executable,
                "-m",
                "stoker.rest.programs.compiler",
                str(directory),
                environment=environment | {"HOME": str(directory), "TMPDIR": str(directory)},
                output=output,
                seconds=seconds,
            )
        except TimeoutError:
            raise InvalidInput(
                f"{program.name} did not describe its job within {seconds:g} s; do no work at the "
                "top level of the file, or raise web.program.timeout if it needs longer"
            ) from None


def _result(directory: Path, program: StoredProgram, options: RestOptions) -> CompiledProgram:
    """Read what the program has left, which may be anything."""
    most = int(options.max_graph_size)
    try:
        answer = decode_json(read_regular(directory / ANSWER, _MAX_ANSWER_BYTES), CompileAnswer)
        if answer.error is None:
            graph = decode_json(read_regular(directory / GRAPH, most), JobGraph)
            files = {sha256: _artifact(directory, name) for sha256, name in answer.files.items()}
            return CompiledProgram(graph=graph, files=files)
    except FileTooLarge:
        raise InvalidInput(
            f"{program.name} describes a job whose graph is larger than {most} bytes; move data "
            "that it carries into files"
        ) from None
    except (OSError, msgspec.DecodeError):
        output = _read_tail(directory / "output")
        raise InvalidInput(
            f"{program.name} ended before it had described its job"
            + (f": {output}" if output else "")
        ) from None
    # The temporary directory of the master means nothing to the reader of the message.
    reason = answer.error.replace(f"{directory}/", "")
    raise InvalidInput(f"{program.name} cannot be run: {reason}")


def _artifact(directory: Path, name: str) -> Path:
    """A file that the compiler has copied. Opening it must neither block nor follow a link."""
    path = directory / name
    if not _ARTIFACT.fullmatch(name):
        raise NotRegular(path)
    open_regular(path).close()
    return path


def _read_tail(output: Path) -> str:
    try:
        with open_regular(output) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _OUTPUT_BYTES))
            text = file.read(_OUTPUT_BYTES).decode(errors="replace")
    except OSError:
        return ""
    return text.replace(f"{output.parent}/", "").strip()
