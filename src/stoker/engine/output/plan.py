"""What is left to do until a staged output stands at its target; asked again after a crash.

Laws, tested with hypothesis: doing any part of the steps and asking again leads to the same end;
at the end the target has every file of the manifest, what was there before and was not replaced,
and nothing else.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stoker.core.manifests import Publication, ResultFile

SUCCESS = "_SUCCESS"
"""Spark's mark of a complete output, which some readers wait for."""


@dataclass(frozen=True)
class Move:
    path: str


@dataclass(frozen=True)
class Remove:
    path: str


Step = Move | Remove


class Missing(Exception):
    """A file of the output is neither staged nor at its target: somebody else removed it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def steps(
    publication: Publication, *, staged: Mapping[str, int], present: Mapping[str, int]
) -> list[Step]:
    """What stands where, by relative path and size, decides; what is done already is left out."""
    todo: list[Step] = []
    for file in _mark_last(publication.manifest.files):
        if file.path in staged and staged[file.path] == file.size:
            if file.path not in present or not _is_mark(file.path):
                todo.append(Move(file.path))
        elif present.get(file.path) != file.size:
            raise Missing(file.path)
    new = {file.path for file in publication.manifest.files}
    todo += [Remove(path) for path in publication.replaces if path in present and path not in new]
    return todo


def replaced_by(
    files: Iterable[ResultFile], present: Iterable[str], *, whole: bool
) -> tuple[str, ...]:
    """Files that an overwrite removes: all, or those of the partitions that are written anew."""
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
