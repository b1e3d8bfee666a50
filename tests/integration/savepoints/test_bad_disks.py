"""Savepoints on disks that are full or read-only: real file systems, mounted for one process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount", "--"]
"""Runs a process whose mounts are visible to it alone and end with it."""


SETUP = """
import asyncio, subprocess, sys
from pathlib import Path

from stoker.core.errors import StorageUnavailable
from stoker.core.ids import JobId, RegionId
from stoker.savepoints.catalog import dispose, list_savepoints
from stoker.savepoints.locations import locate, read_manifest
from stoker.savepoints.restore import restore, verify
from stoker.savepoints.take import SavepointHeader, SavepointWriter
from stoker.storage.memory import MemoryStorage
from stoker.storage.open import open_storage
from unit.savepoints.checkpoint_files import FakeQuery, streaming_graph

disk = Path(sys.argv[1])
storage = MemoryStorage()
query = FakeQuery(storage, "out")
query.run(3)

def mount(*options):
    subprocess.run(["mount", *options, "tmpfs", str(disk)], check=True)

async def take(name):
    location = locate(str(disk / name), open_storage)
    header = SavepointHeader(savepoint_id=name, kind="savepoint", at=1)
    writer = SavepointWriter(storage, streaming_graph("out"), location, header)
    return await writer.write([RegionId("out")])

async def expect_refusal(work, *words):
    try:
        await work
    except StorageUnavailable as error:
        assert all(each in error.message for each in words), error.message
    else:
        raise AssertionError("no StorageUnavailable was raised")

def no_pins():
    return not [path for path in storage.files if "/pins/" in path]
"""

FULL = """
async def main():
    mount("-t", "tmpfs", "-o", "size=128k")
    storage.files[f"{query.root}/state/0/1/3.changelog"] = b"x" * 200_000
    await expect_refusal(take("one"), "No space left on device", "free some space", str(disk))
    assert list(disk.iterdir()) == [] and no_pins()
    assert await list_savepoints(str(disk), open_storage) == []
    storage.files[f"{query.root}/state/0/1/3.changelog"] = b"x"
    assert (await take("two")).batches == {"out": 2}

asyncio.run(main())
"""

READ_ONLY = """
async def main():
    mount("-t", "tmpfs")
    await take("one")
    mount("-o", "remount,ro")
    await expect_refusal(take("two"), "Read-only file system", "writable", str(disk))
    assert no_pins()
    path = str(disk / "one")
    await expect_refusal(dispose(path, open_storage, storage), "Read-only file system")
    location = locate(path, open_storage)
    manifest = await read_manifest(location)
    assert await verify(location, manifest) == []
    new = JobId("b" * 32)
    restored = await restore(location, manifest, storage, new, regions=["out"], now=2)
    assert restored.batches == {"out": 2}

asyncio.run(main())
"""


@pytest.fixture(scope="module", autouse=True)
def skip_without_mounts() -> None:
    mount = ["mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*NAMESPACE, *mount], capture_output=True, check=False).returncode != 0
    ):
        pytest.skip("this machine does not allow mounts")


def run_in_namespace(script: str, disk: Path) -> None:
    done = subprocess.run(
        [*NAMESPACE, sys.executable, "-c", SETUP + script, str(disk)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_savepoint_on_a_full_disk_fails_and_leaves_no_files(
    tmp_path: Path,
) -> None:
    run_in_namespace(FULL, tmp_path)


def test_a_job_can_start_from_a_read_only_disk_but_savepoints_there_fail(
    tmp_path: Path,
) -> None:
    run_in_namespace(READ_ONLY, tmp_path)
