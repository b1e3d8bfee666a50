"""Paths in the forms that Spark reads, those that a job declares, and what they are relative to.

A job carries the directory in which it was submitted, because the processes that run the job have
other working directories, and may be on another machine. There a directory of the same name can
hold other files, or nothing that the user would ever look at. So a name alone is not enough: the
directory has to be the same one.
"""

import hashlib
import os
import re
import socket
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from stoker.core.formats import known_format
from stoker.core.graph import (
    CallerDirectory,
    FormatRead,
    FormatWrite,
    JobGraph,
    Sink,
    Source,
    Vertex,
)

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_SMALL_INODES = 256
"""The root directories of file systems have inode numbers up to this one: they identify nothing."""
Access = TypeVar("Access", FormatRead, FormatWrite)
Resolve = Callable[[str, str, bool], str]
"""Makes a path absolute; gets the path, its place in words, and whether it was relative before."""


def local_path(path: str) -> Path | None:
    """A path in Spark's form as a local path; None if it is not on this machine's file system."""
    if path.startswith("file:"):
        return Path("/" + path.removeprefix("file:").lstrip("/"))
    return None if _SCHEME.match(path) else Path(path)


def is_relative(path: str) -> bool:
    """Whether Spark would resolve the path against a working directory. URLs stay as they are."""
    return bool(path) and not path.startswith("/") and _SCHEME.match(path) is None


def is_of_files(format: str) -> bool:
    """Whether a path of this format names files. An empty format is Spark's default one.

    In a format that Stoker does not know, a path may mean anything.
    """
    known = known_format(format or "parquet")
    return known is not None and known.files


def with_absolute_paths(graph: JobGraph, resolve: Resolve) -> JobGraph:
    vertices = tuple(_located(vertex, resolve) for vertex in graph.vertices)
    if vertices == graph.vertices:
        return graph
    return msgspec.structs.replace(graph, vertices=vertices)


def _located(vertex: Vertex, resolve: Resolve) -> Vertex:
    match vertex:
        case Source(read=FormatRead() as read):
            place = f"source '{vertex.name}'"
            return msgspec.structs.replace(vertex, read=_with_path(read, resolve, place))
        case Sink(write=FormatWrite() as write):
            place = f"sink '{vertex.name}'"
            return msgspec.structs.replace(vertex, write=_with_path(write, resolve, place))
        case _:
            return vertex


def _with_path(access: Access, resolve: Resolve, place: str) -> Access:
    if not is_of_files(access.format):
        return access
    options = {
        key: resolve(value, place, access.was_relative) if key.lower() == "path" else value
        for key, value in access.options.items()
    }
    path = access.path and resolve(access.path, place, access.was_relative)
    was_relative = access.was_relative or (path, options) != (access.path, access.options)
    return msgspec.structs.replace(access, path=path, options=options, was_relative=was_relative)


def describe_directory(directory: Path) -> CallerDirectory:
    return CallerDirectory(
        path=str(directory.absolute()),
        machine=this_machine(),
        inode=_inode_of(directory) or 0,
    )


def find_here(caller: CallerDirectory) -> Path | None:
    """The caller's directory; None if this process cannot reach that very directory."""
    here = _inode_of(Path(caller.path))
    if here is None:
        return None
    is_same_directory = here == caller.inode and here > _SMALL_INODES
    if caller.machine in ("", this_machine()) or is_same_directory:
        return Path(caller.path)
    return None


def _inode_of(directory: Path) -> int | None:
    try:
        status = os.stat(directory)
    except (OSError, ValueError):
        return None
    return status.st_ino if stat.S_ISDIR(status.st_mode) else None


@cache
def this_machine() -> str:
    """The same after a restart of the machine, and another one in each container."""
    parts = [socket.gethostname(), *map(_content_of, _MACHINE_IDS)]
    # Hashed, because the id of a machine is not for others to know.
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:16]


def _content_of(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, ValueError):
        return ""
