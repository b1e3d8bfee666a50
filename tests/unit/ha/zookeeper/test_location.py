"""Which servers and which node a URL names, and which node holds a key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import InvalidOption
from stoker.core.ids import Ids
from stoker.ha.open import open_coordinator
from stoker.ha.zookeeper.location import Location, Paths, is_folder, name_of, read_location


@pytest.mark.parametrize(
    ("url", "hosts", "root"),
    [
        ("zookeeper://zk1:1,zk2:2/stoker", ("zk1:1", "zk2:2"), "/stoker"),
        ("zookeeper://zk1/teams/etl/", ("zk1:2181",), "/teams/etl"),
        ("zookeeper://[::1]:7,[::2]/a%20b", ("[::1]:7", "[::2]:2181"), "/a b"),
    ],
)
def test_a_url_names_servers_and_a_root(url: str, hosts: tuple[str, ...], root: str):
    assert read_location(url) == Location(hosts=hosts, root=root)


@pytest.mark.parametrize(
    "url",
    [
        "zookeeper://",
        "zookeeper:///root",
        "zookeeper://zk1",
        "zookeeper://zk1/",
        "zookeeper://zk1,/root",
        "zookeeper://zk1:port/root",
        "zookeeper://zk1:99999/root",
        "zookeeper://user:secret@zk1/root",
        "zookeeper://zk1/a/../b",
        "zookeeper://zk1/zookeeper/quota",
    ],
)
async def test_a_bad_url_is_explained(url: str):
    with pytest.raises(InvalidOption, match="write zookeeper://host:port,host:port/root"):
        await open_coordinator(url, ids=Ids())


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
