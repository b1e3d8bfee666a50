"""Object stores through fsspec: where their drivers differ."""

from datetime import UTC, datetime
from typing import Any

import pytest

from stoker.core.errors import StorageUnavailable
from stoker.storage.remote import FsspecStorage


class Driver:
    """The part of a driver that reports the ages of files."""

    def __init__(self, facts: dict[str, Any], modified: object = NotImplementedError()) -> None:
        self._facts = facts
        self._modified = modified

    def invalidate_cache(self) -> None: ...

    def find(self, folder: str, *, detail: bool) -> dict[str, dict[str, Any]]:
        assert detail
        return {f"{folder}/a/1": self._facts, f"{folder}/a/2": self._facts}

    def modified(self, _target: str) -> object:
        if isinstance(self._modified, Exception):
            raise self._modified
        return self._modified


class FailingDriver:
    """Every call raises the same error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def invalidate_cache(self) -> None: ...

    def exists(self, _target: str) -> bool:
        return True

    def rm(self, _target: str, *, recursive: bool) -> None:
        raise self._error

    def cat_file(self, _target: str) -> bytes:
        raise self._error


class ForeignError(Exception):
    """An error of a library that a driver is built on."""


def storage(driver: Driver | FailingDriver) -> FsspecStorage:
    return FsspecStorage(driver, "bucket/stoker", "s3://bucket/stoker")


@pytest.mark.parametrize("name", ["LastModified", "last_modified", "mtime"])
@pytest.mark.parametrize("zone", [UTC, None])
async def test_the_age_of_a_file_is_found_in_the_listing_of_every_driver(name, zone) -> None:
    facts = {name: datetime(2026, 11, 1, tzinfo=zone)}
    expected = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
    times = await storage(Driver(facts)).modified("jobs")
    assert times == {"jobs/a/1": expected, "jobs/a/2": expected}


async def test_without_ages_in_the_listing_each_file_is_queried() -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    times = await storage(Driver({"mtime": "?"}, at)).modified("jobs")
    assert set(times.values()) == {at.timestamp()}


async def test_a_file_deleted_during_the_listing_is_left_out() -> None:
    assert await storage(Driver({}, FileNotFoundError())).modified("jobs") == {}


async def test_a_driver_without_ages_raises_instead_of_guessing() -> None:
    with pytest.raises(StorageUnavailable, match="tell the age"):
        await storage(Driver({})).modified("jobs")


async def test_an_error_of_a_drivers_own_library_means_that_the_storage_is_unavailable() -> None:
    with pytest.raises(StorageUnavailable, match=r"cannot read s3://.*/a: ForeignError: no route"):
        await storage(FailingDriver(ForeignError("no route"))).read("a")


@pytest.mark.parametrize("how", ["delete", "delete_tree"])
async def test_deleting_what_another_process_has_just_deleted_is_no_error(how: str) -> None:
    await getattr(storage(FailingDriver(FileNotFoundError())), how)("jobs/a")
