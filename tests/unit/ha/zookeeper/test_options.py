"""Options that contradict each other are refused before any server is contacted."""

from datetime import timedelta
from typing import Any

import pytest

from stoker.core.errors import InvalidOption
from stoker.ha.zookeeper.options import AccessControl, ZooKeeperOptions


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"acl": AccessControl.CREATOR}, "auth"),
        ({"auth": ("digest",)}, "SCHEME:CREDENTIAL"),
        ({"session_timeout": timedelta(0)}, "above zero"),
        ({"connection_timeout": timedelta(seconds=-1)}, "above zero"),
    ],
)
def test_contradictory_zookeeper_options_are_refused(options: dict[str, Any], match: str):
    with pytest.raises(InvalidOption, match=match):
        ZooKeeperOptions(**options)


def test_a_credential_may_contain_colons():
    assert ZooKeeperOptions(auth=("digest:user:pass",)).credentials == [("digest", "user:pass")]


def test_sasl_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("stoker.ha.zookeeper.options.find_spec", lambda _name: None)
    with pytest.raises(InvalidOption, match="pip install pure-sasl"):
        ZooKeeperOptions(sasl_mechanism="DIGEST-MD5")
