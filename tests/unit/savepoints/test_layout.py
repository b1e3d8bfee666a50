"""The files of a checkpoint that a batch needs."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.savepoints.layout import checksum_path, cut_at, latest_descriptions, layout_of
from stoker.storage.memory import MemoryStorage
from unit.savepoints.checkpoint_files import FakeQuery


def files_of(query: FakeQuery) -> list[str]:
    return [path.removeprefix(f"{query.root}/") for path in query.files]


def test_a_cut_ends_with_its_batch_and_keeps_the_plan_of_the_next_one():
    query = FakeQuery(MemoryStorage(), "out", partitions=1)
    query.run(3)
    query.plan()
    cut = cut_at(layout_of(files_of(query)), 1)
    assert (cut.batch, cut.pending, cut.gaps) == (1, True, ())
    assert "offsets/2" in cut.files
    assert "offsets/3" not in cut.files
    assert "commits/2" not in cut.files
    assert [file for file in cut.files if file.endswith("changelog")] == [
        "state/0/0/1.changelog",
        "state/0/0/2.changelog",
    ]


def test_changes_before_a_snapshot_are_not_needed():
    query = FakeQuery(MemoryStorage(), "out", partitions=1)
    query.run(3)
    query.snapshot()
    query.run(2)
    cut = cut_at(layout_of(files_of(query)), 4)
    assert cut.snapshots == ("state/0/0/3.zip",)
    assert [file for file in cut.files if file.endswith("changelog")] == [
        "state/0/0/4.changelog",
        "state/0/0/5.changelog",
    ]


def test_a_missing_change_is_a_gap_that_names_store_and_version():
    query = FakeQuery(MemoryStorage(), "out")
    query.run(4)
    del query.files[f"{query.root}/state/0/1/3.changelog"]
    cut = cut_at(layout_of(files_of(query)), 3)
    assert cut.gaps == ("state/0/1 lacks the changes that lead to version 3",)
    assert cut_at(layout_of(files_of(query)), 1).gaps == ()


def test_a_cut_includes_checksums_and_excludes_unfinished_files():
    paths = ["metadata", ".metadata.crc", "offsets/.0.crc", "offsets/0", "offsets/.1.tmp"]
    cut = cut_at(layout_of([*paths, "commits/0", "commits/.0.tmp.crc"]), 0)
    assert cut.files == (".metadata.crc", "commits/0", "metadata", "offsets/.0.crc", "offsets/0")


def test_stores_of_a_join_and_files_with_an_id_are_recognized():
    store = "state/0/3/left-keyToNumValues"
    layout = layout_of([f"{store}/7_b1c2.changelog", f"{store}/6_a0.zip", f"{store}/SSTs/1.sst"])
    assert [file.version for file in layout.state[store]] == [6, 7]
    assert layout.partitions == {0: frozenset({3})}
    assert layout.others == ()


def test_the_latest_description_of_an_operator_is_that_of_the_highest_batch():
    first = ["state/0/_metadata/metadata", *(f"state/0/_metadata/v2/{n}" for n in (0, 9, 10))]
    second = ["state/1/_metadata/metadata", "state/1/_stateSchema/default/0"]
    assert latest_descriptions([*first, *second]) == [first[-1], second[0]]
    assert latest_descriptions(reversed([*first, *second])) == [first[-1], second[0]]


def test_before_the_first_commit_there_is_nothing_but_the_plan():
    query = FakeQuery(MemoryStorage(), "out")
    query.plan()
    cut = cut_at(layout_of(files_of(query)), None)
    assert (cut.batch, cut.pending, cut.gaps) == (None, True, ())
    assert "offsets/0" in cut.files


STEPS = st.lists(st.sampled_from(["run", "plan", "snapshot", "purge"]), max_size=25)


@given(STEPS)
def test_the_last_committed_batch_is_always_complete(steps: list[str]):
    query = FakeQuery(MemoryStorage(), "out")
    query.run()
    for step in steps:
        if step == "purge":
            query.purge(2)
        else:
            getattr(query, step)()
    layout = layout_of(files_of(query))
    cut = cut_at(layout, layout.last_commit)
    assert cut.gaps == ()
    # A cut of the cut is the same: no needed file was left out.
    again = layout_of(cut.files)
    assert again.last_commit == layout.last_commit
    assert cut_at(again, again.last_commit).files == cut.files


@given(st.text(alphabet="abc/", min_size=1))
def test_a_checksum_stands_in_the_folder_of_its_file(path: str):
    assert checksum_path(path).rpartition("/")[0] == path.rpartition("/")[0]
