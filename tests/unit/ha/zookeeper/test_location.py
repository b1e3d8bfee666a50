"""Which servers and which node a URL names."""

import pytest

from stoker.core.errors import InvalidOption
from stoker.core.ids import Ids
from stoker.ha.open import open_coordinator
from stoker.ha.zookeeper.location import Location, read_location


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
