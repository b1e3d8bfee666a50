"""Upgrades and rescales over REST: triggered with files, followed, and refused with a reason."""

import asyncio
import hashlib
from pathlib import Path

import httpx
import msgspec
import pytest

from stoker.api.operations import ReplacementState
from stoker.client.asynchronous import AsyncClient
from stoker.client.blocking import BlockingClient
from stoker.client.calls import ReplacementSettings
from stoker.core.errors import InvalidInput, NotFound
from stoker.core.graph import Artifact, ArtifactKind
from stoker.core.replacements import ReplacementKind, ReplacementPhase
from stoker.core.secrets import MASK
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import FINISHED, NEW, RUNNING, new_graph


def set_phase(master: Master, trigger_id: str, phase: ReplacementPhase) -> None:
    known = master.dispatcher.replacements
    known[trigger_id] = msgspec.structs.replace(
        known[trigger_id], phase=phase, savepoint="/saved/one", reason="the new version failed"
    )


async def test_an_upgrade_is_triggered_with_its_files_and_followed_until_it_ends(tmp_path: Path):
    content = b"library" * 1000
    file = tmp_path / "lib.whl"
    file.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    artifact = Artifact(name="lib.whl", kind=ArtifactKind.WHEEL, sha256=digest, size=len(content))
    master = Master()
    async with master.serving() as url, AsyncClient(url) as client:
        trigger_id = await client.begin_upgrade(
            RUNNING, new_graph(artifacts=(artifact,)), {digest: file}
        )
        assert master.blobs.content[NEW, digest] == content
        reported: list[ReplacementState] = []

        def report(state: ReplacementState) -> None:
            reported.append(state)
            set_phase(master, trigger_id, ReplacementPhase.ROLLED_BACK)

        state = await client.replacement(RUNNING, trigger_id, report)
    assert [each.phase for each in reported] == [ReplacementPhase.STOPPING]
    assert state.rolled_back
    assert (state.savepoint, state.reason) == ("/saved/one", "the new version failed")


async def test_the_blocking_client_triggers_and_follows_an_upgrade():
    master = Master()
    async with master.serving() as url:
        client = BlockingClient(url)
        settings = ReplacementSettings(
            directory="/saved", window_seconds=3, allow_non_restored_state=True
        )
        upgrade = await asyncio.to_thread(
            client.begin_upgrade, RUNNING, new_graph(), settings=settings
        )
        rescale = await asyncio.to_thread(client.begin_rescale, RUNNING, 8)
        set_phase(master, rescale, ReplacementPhase.DONE)
        state = await asyncio.to_thread(client.replacement, RUNNING, rescale)
        assert state.over
        assert not state.failed
    known = master.dispatcher.replacements
    assert known[upgrade].kind is ReplacementKind.UPGRADE
    assert (known[rescale].kind, known[rescale].partitions) == (ReplacementKind.RESCALE, 8)


async def test_the_reason_why_a_new_version_does_not_run_shows_no_secrets():
    """The new version has the same secret settings as the old one (REST-16)."""
    master = Master()
    async with master.serving() as url, AsyncClient(url) as client:
        trigger_id = await client.begin_rescale(RUNNING, 8)
        set_phase(master, trigger_id, ReplacementPhase.ROLLED_BACK)
        known = master.dispatcher.replacements
        plan = msgspec.structs.replace(known[trigger_id], reason="no login with hunter2")
        known[trigger_id] = plan
        master.dispatcher.jobs[plan.new_id] = master.dispatcher.jobs[RUNNING]
        state = await client.replacement(RUNNING, trigger_id)
    assert state.reason == f"no login with {MASK}"


async def test_invalid_upgrade_requests_are_refused_with_an_explanation():
    async with Master().serving() as url, AsyncClient(url) as client:
        with pytest.raises(NotFound):
            await client.replacement(FINISHED, "f" * 32)
        with pytest.raises(NotFound):
            await client.begin_rescale("f" * 32, 2)
        with pytest.raises(InvalidInput, match="window-seconds"):
            await client.begin_rescale(RUNNING, 2, settings=ReplacementSettings(window_seconds=-1))
        with pytest.raises(InvalidInput, match="partitions"):
            await client.begin_rescale(RUNNING, -2)
        async with httpx.AsyncClient(base_url=url) as http:
            path = f"/jobs/{RUNNING}/replacements/{'f' * 32}"
            known = await http.get(path, params={"known": "RESTING"})
            assert known.status_code == 400
            assert "STOPPING" in known.json()["errors"][0]
            bare = await http.post(f"/jobs/{RUNNING}/upgrade")
            assert bare.status_code == 400
