"""`stoker cluster logs`: the logs of the processes of a local cluster."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import click

from stoker.cli.exit_codes import OK
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.options.local_cluster import directory_option
from stoker.core.errors import NotFound
from stoker.core.faults import did_you_mean

_BLOCK = 64 * 1024
_POLL_SECONDS = 0.3

Lines = tuple[str, list[str]]
"""Name of a process, and lines of its log."""


@click.command()
@click.argument("process", required=False)
@click.option(
    "--lines",
    "count",
    type=click.IntRange(0),
    default=40,
    show_default=True,
    help="How many lines from the end of each log.",
)
@click.option("-f", "--follow", is_flag=True, help="Keep printing what is added, until Ctrl-C.")
@directory_option
@shared_options
def logs(
    invocation: Invocation, process: str | None, count: int, follow: bool, directory: Path
) -> int:
    """Print the logs of the local cluster's processes, also after they have ended.

    PROCESS is a name from `stoker cluster status`, such as master-1; without it all are printed.
    What a job printed is in: stoker logs JOB

    Example: stoker cluster logs master-1 --follow
    """
    tails = [LogTail(path) for path in _log_files(directory, process)]
    printer = _Printer(json=invocation.json, with_names=len(tails) > 1)
    for tail in tails:
        printer.show(tail.name, tail.last_lines(count))
    while follow:
        for tail in tails:
            printer.show(tail.name, list(tail.new_lines()))
        time.sleep(_POLL_SECONDS)
    return OK


def _log_files(directory: Path, process: str | None) -> list[Path]:
    files = {path.stem: path for path in sorted((directory / "log").glob("*.log"))}
    if not files:
        raise NotFound(
            f"there are no logs of a local cluster in {directory}; start one with: "
            "stoker cluster up, or name its directory with --dir"
        )
    if process is None:
        return list(files.values())
    if process not in files:
        raise NotFound(f"there is no process '{process}'; {did_you_mean(process, files)}")
    return [files[process]]


class LogTail:
    """The end of a log, and what is added to it afterwards, in whole lines."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        self._path = path
        self._offset = 0

    def last_lines(self, count: int) -> list[str]:
        with self._path.open("rb") as log:
            start = end = log.seek(0, os.SEEK_END)
            content = b""
            # One more than asked for: the block may begin in the middle of a line.
            while start and content.count(b"\n") <= count:
                start = max(0, start - _BLOCK)
                log.seek(start)
                content = log.read(end - start)
        self._offset = end
        lines = content.decode(errors="replace").splitlines()
        return lines[len(lines) - count :] if count < len(lines) else lines

    def new_lines(self) -> Iterator[str]:
        with self._path.open("rb") as log:
            if log.seek(0, os.SEEK_END) < self._offset:
                # The file was emptied or replaced: everything in it is new.
                self._offset = 0
            log.seek(self._offset)
            content = log.read()
        whole, newline, _ = content.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        yield from whole.decode(errors="replace").splitlines()


class _Printer:
    def __init__(self, *, json: bool, with_names: bool) -> None:
        self._json = json
        self._with_names = with_names
        self._last: str | None = None

    def show(self, name: str, lines: list[str]) -> None:
        if self._json:
            for line in lines:
                click.echo(json.dumps({"process": name, "text": line}))
            return
        if lines and self._with_names and name != self._last:
            click.echo(f"{'' if self._last is None else chr(10)}==> {name} <==")
            self._last = name
        for line in lines:
            click.echo(line)
