"""The steps that move a staged output to its target, computed again after each crash.

A crash can leave any part of the output moved. The state of the file system alone decides what is
left to do. Two laws hold, and are tested with hypothesis: doing any part of the steps and then
computing the rest leads to the same result, and that result has every file of the manifest, the
earlier files that were not replaced, and nothing else.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stoker.core.manifests import Publication, ResultFile

SUCCESS = "_SUCCESS"
"""Spark's marker file of a complete output, which some readers wait for. It is moved last."""


@dataclass(frozen=True)
class Move:
    path: str


@dataclass(frozen=True)
class Remove:
    path: str


Step = Move | Remove


class MissingFile(Exception):
    """A file of the output is neither staged nor at its target: someone else removed it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def steps(
    publication: Publication, *, staged: Mapping[str, int], present: Mapping[str, int]
) -> list[Step]:
    """The steps that are left; raises MissingFile if they cannot lead to a complete output.

    `staged` and `present` give the size of each file, staged and at the target, by relative path.
    """
    todo: list[Step] = []
    for file in _mark_last(publication.manifest.files):
        if file.path in staged and staged[file.path] == file.size:
            if file.path not in present or not _is_mark(file.path):
                todo.append(Move(file.path))
        elif present.get(file.path) != file.size:
            raise MissingFile(file.path)
    new = {file.path for file in publication.manifest.files}
    todo += [Remove(path) for path in publication.replaces if path in present and path not in new]
    return todo


def replaced_by(
    files: Iterable[ResultFile], present: Iterable[str], *, whole: bool
) -> tuple[str, ...]:
    """Files that an overwrite removes: all if `whole`, else those in the written partitions."""
    new = {file.path for file in files}
    partitions = {_folder(path) for path in new if not _is_mark(path)}
    return tuple(
        sorted(
            path
            for path in present
            if path not in new and (whole or (_folder(path) in partitions and _folder(path)))
        )
    )


def _mark_last(files: Iterable[ResultFile]) -> list[ResultFile]:
    return sorted(files, key=lambda file: _is_mark(file.path))


def _is_mark(path: str) -> bool:
    return path in (SUCCESS, f".{SUCCESS}.crc")


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
