"""Any number of interrupted attempts to publish gives the same result as one attempt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.ids import AttemptId
from stoker.core.manifests import Manifest, Publication, ResultFile
from stoker.engine.output.plan import MissingFile, Move, Remove, Step, replaced_by, steps

names = st.sampled_from(
    ["_SUCCESS", "._SUCCESS.crc", *(f"p={p}/part-{n}" for p in "ab" for n in "123")]
)
folders = st.dictionaries(names, st.integers(0, 3), max_size=6)


def publication(new: dict[str, int], replaces: tuple[str, ...] = ()) -> Publication:
    files = tuple(ResultFile(path=path, size=size) for path, size in sorted(new.items()))
    manifest = Manifest(attempt=AttemptId("a"), directory="/staged", files=files)
    return Publication(manifest=manifest, target="/target", replaces=replaces)


class Disk:
    def __init__(self, staged: dict[str, int], present: dict[str, int]) -> None:
        self.staged = dict(staged)
        self.present = dict(present)

    def do(self, todo: list[Step]) -> None:
        for step in todo:
            match step:
                case Move(path):
                    self.present[path] = self.staged.pop(path)
                case Remove(path):
                    del self.present[path]

    def left(self, decided: Publication) -> list[Step]:
        return steps(decided, staged=self.staged, present=self.present)


@given(
    folders.filter(bool),
    st.dictionaries(st.sampled_from(["old-1", "p=a/old-2", "p=c/old-3"]), st.integers(0, 3)),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 4), max_size=4),
)
def test_after_any_crash_every_file_is_published_once_and_replaced_files_are_gone(
    new: dict[str, int], old: dict[str, int], overwrite: bool, whole: bool, cuts: list[int]
) -> None:
    files = [ResultFile(path=path, size=size) for path, size in new.items()]
    replaces = replaced_by(files, old, whole=whole) if overwrite else ()
    decided = publication(new, replaces)
    disk = Disk(new, old)
    for cut in cuts:
        disk.do(disk.left(decided)[:cut])
    disk.do(disk.left(decided))
    assert disk.left(decided) == []
    kept = {path: size for path, size in old.items() if path not in replaces}
    assert disk.present == {**kept, **new}
    if overwrite and whole:
        assert disk.present == new


def test_the_success_marker_is_published_last() -> None:
    new = {"_SUCCESS": 0, "part-1": 5, "part-2": 6}
    assert steps(publication(new), staged=new, present={})[-1] == Move("_SUCCESS")


def test_an_existing_success_marker_is_not_replaced() -> None:
    new = {"_SUCCESS": 0, "part-1": 5}
    assert steps(publication(new), staged=new, present={"_SUCCESS": 0}) == [Move("part-1")]


def test_an_overwrite_by_partition_leaves_the_other_partitions_alone() -> None:
    new = [ResultFile(path="p=a/new", size=1)]
    present = ["p=a/old", "p=b/old", "at-the-top"]
    assert replaced_by(new, present, whole=False) == ("p=a/old",)
    assert replaced_by(new, present, whole=True) == ("at-the-top", "p=a/old", "p=b/old")


def test_a_file_that_is_neither_staged_nor_present_is_named() -> None:
    with pytest.raises(MissingFile, match="part-1"):
        steps(publication({"part-1": 5}), staged={}, present={"part-1": 4})
