"""Under which addresses a master publishes its REST server."""

from pathlib import Path

import pytest

from stoker.config.load import configuration_from
from stoker.config.options import ALL
from stoker.config.sources import settings_on_command_line
from stoker.config.tree import OptionTree
from stoker.processes.master import _addresses
from stoker.processes.master_parts import RestAddresses


def published(url: str, *definitions: str) -> RestAddresses:
    settings = settings_on_command_line(list(definitions))
    return _addresses(configuration_from(OptionTree(ALL), settings), url)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8081", "https://[::1]:8081"])
def test_standbys_of_the_same_machine_use_the_socket(url: str, tmp_path: Path) -> None:
    found = published(url, f"rest.socket={tmp_path / 'rest.socket'}")
    assert found == RestAddresses(url=url, socket=f"unix://{tmp_path}/rest.socket")


def test_standbys_that_may_be_elsewhere_use_the_port(tmp_path: Path) -> None:
    url = "https://stoker.example.org:8081"
    assert published(url, f"rest.socket={tmp_path}/s") == RestAddresses(url=url)
    assert published("http://127.0.0.1:8081") == RestAddresses(url="http://127.0.0.1:8081")
