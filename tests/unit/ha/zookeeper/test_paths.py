"""Which node holds a key."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.ha.zookeeper.paths import Paths, is_folder, name_of

PATHS = Paths("/root")
parts = st.text(alphabet="ab+-", min_size=1, max_size=3)
keys = st.lists(parts, min_size=1, max_size=3).map("/".join)


def test_keys_are_easy_to_find_with_other_tools():
    assert PATHS.of_key("epoch") == "/root/epoch"
    assert PATHS.of_key("jobs/3f") == "/root/+jobs/3f"
    assert PATHS.folders_above("attempts/3f/out") == ["/root/+attempts", "/root/+attempts/+3f"]


@given(keys, keys)
def test_no_two_keys_or_folders_share_a_node(one: str, other: str):
    assert (PATHS.of_key(one) == PATHS.of_key(other)) == (one == other)
    assert (PATHS.of_folder(one) == PATHS.of_folder(other)) == (one == other)
    assert PATHS.of_key(one) != PATHS.of_folder(other)


@given(keys)
def test_the_name_of_a_child_is_the_part_of_its_key(key: str):
    node, folder = (path.rpartition("/")[2] for path in (PATHS.of_key(key), PATHS.of_folder(key)))
    assert name_of(node) == name_of(folder) == key.rpartition("/")[2]
    assert is_folder(folder)
    assert not is_folder(node)
