"""Which coordinator a configuration selects."""

from pathlib import Path

import pytest

from builders import ODD_NAME
from stoker.config.processes import ClusterOptions
from stoker.core.errors import InvalidOption, StartupFailed
from stoker.core.ids import Ids
from stoker.ha.open import open_coordinator
from stoker.processes.directories import coordinator_url


def test_by_default_the_coordinator_is_embedded_below_the_storage(tmp_path: Path) -> None:
    """A single machine needs no configuration (ENTRY-11, LEAD-16)."""
    assert coordinator_url(ClusterOptions(storage=str(tmp_path))) == (
        f"embedded://{tmp_path}/coordinator"
    )


@pytest.mark.parametrize("as_url", [False, True])
async def test_any_directory_can_hold_the_embedded_coordinator(
    tmp_path: Path, as_url: bool
) -> None:
    """Its URL has escapes for what would otherwise end or change the path."""
    storage = tmp_path / ODD_NAME
    storage.mkdir()
    url = coordinator_url(ClusterOptions(storage=storage.as_uri() if as_url else str(storage)))
    coordinator = await open_coordinator(url, ids=Ids())
    await coordinator.close()
    assert (storage / "coordinator").is_dir()
    assert [each.name for each in tmp_path.iterdir()] == [storage.name]


def test_a_configured_coordinator_url_is_used_unchanged() -> None:
    """The default applies only if no URL is configured (ENTRY-11)."""
    named = "zookeeper://a:1,b:2/root"
    assert coordinator_url(ClusterOptions(storage="s3://bucket", high_availability=named)) == named


def test_a_remote_storage_cannot_hold_an_embedded_coordinator() -> None:
    """The locks and the database of the coordinator need a local file system (ENTRY-11)."""
    with pytest.raises(StartupFailed, match="set high-availability"):
        coordinator_url(ClusterOptions(storage="s3://bucket/stoker"))


async def test_a_coordinator_of_an_unknown_kind_stops_the_start() -> None:
    """The error quotes the unknown kind (ENTRY-11, X-ENTRY-05)."""
    with pytest.raises(InvalidOption, match="etcd"):
        await open_coordinator("etcd://host", ids=Ids())
