"""Savepoints over REST: triggers, outcomes, disposal. OPS-01, OPS-02, OPS-07, OPS-08."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from builders import virtual, wait_until_quiet
from stoker.core.checkpoints import SavepointRequest, SavepointSummary, SavepointTaken
from stoker.core.errors import CannotTakeSavepoint, NotFound, UnusableSavepoint
from stoker.core.secrets import MASK
from stoker.gateways.dispatcher import CallerRights, SavepointStatus
from stoker.savepoints.access import SavepointAccess
from stoker.savepoints.catalog import dispose, list_savepoints
from stoker.savepoints.manifest import MANIFEST, SavedFile, SavepointManifest, encode_manifest
from stoker.savepoints.places import Places
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of
from stoker.storage.memory import MemoryStorage
from stoker.storage.open import open_place
from stoker.testing.rest import DispatcherInMemory, Master
from stoker.testing.sample_jobs import RUNNING

T = TypeVar("T")
TRIGGER = "7" * 32


class SavepointDispatcher:
    """A fake dispatcher: each triggered savepoint gets the prepared outcome."""

    def __init__(self, master: Master, answer: SavepointStatus | Exception) -> None:
        self.requests: list[SavepointRequest] = []
        self.disposed: list[str] = []
        self.answer = answer
        for name in (
            "trigger_savepoint",
            "savepoint_status",
            "savepoints",
            "retained_checkpoints",
            "dispose_savepoint",
        ):
            setattr(master.dispatcher, name, getattr(self, name))

    async def trigger_savepoint(
        self, job_id: str, trigger_id: str, request: SavepointRequest
    ) -> None:
        self.requests.append(request)
        if isinstance(self.answer, CannotTakeSavepoint):
            raise self.answer

    async def savepoint_status(
        self, job_id: str, trigger_id: str, seconds: float
    ) -> SavepointStatus:
        if isinstance(self.answer, Exception):
            raise self.answer
        # Like a call over a network: it gives other tasks their turn.
        await asyncio.sleep(0)
        return self.answer

    async def savepoints(self, directory: str | None) -> list[SavepointSummary]:
        return [
            SavepointSummary(
                path=f"{directory}/one",
                job_id=RUNNING,
                job_name="n",
                created_at=1,
                kind="savepoint",
                size_bytes=2,
            )
        ]

    async def retained_checkpoints(self) -> list[SavepointSummary]:
        (found,) = await self.savepoints("/kept")
        return [msgspec.structs.replace(found, kind="checkpoint", expires=True)]

    async def dispose_savepoint(self, path: str, rights: CallerRights | None = None) -> None:
        if path == "/gone":
            raise UnusableSavepoint(path, "there is no such directory")
        self.disposed.append(path)


DONE = SavepointStatus(done=True, taken=SavepointTaken(path="/saved/one"))


async def outcome(http: httpx.AsyncClient, path: str) -> dict[str, Any]:
    """The outcome of an operation, which ends in the background."""
    await wait_until_quiet()
    answer = (await http.get(path)).json()
    assert answer["status"]["id"] == "COMPLETED"
    return dict(answer["operation"])


async def with_master(
    answer: SavepointStatus | Exception,
    scenario: Callable[[httpx.AsyncClient, SavepointDispatcher], Any],
) -> None:
    master = Master()
    saving = SavepointDispatcher(master, answer)
    async with master.in_process() as http:
        await scenario(http, saving)


@virtual
async def test_flinks_savepoint_request_is_accepted_and_answered_with_the_location() -> None:
    async def scenario(http: httpx.AsyncClient, saving: SavepointDispatcher) -> None:
        body = {"target-directory": "/saved", "cancel-job": False, "triggerId": TRIGGER}
        answer = await http.post(f"/jobs/{RUNNING}/savepoints", json=body)
        assert (answer.status_code, answer.json()) == (202, {"request-id": TRIGGER})
        assert saving.requests == [SavepointRequest(directory="/saved")]
        path = f"/jobs/{RUNNING}/savepoints/{TRIGGER}"
        assert await outcome(http, path) == {"location": "/saved/one"}

    await with_master(DONE, scenario)


async def test_retained_checkpoints_are_listed_like_savepoints() -> None:
    async def scenario(http: httpx.AsyncClient, _saving: SavepointDispatcher) -> None:
        (found,) = (await http.get("/retained-checkpoints")).json()["savepoints"]
        assert (found["path"], found["kind"], found["expires"]) == ("/kept/one", "checkpoint", True)

    await with_master(DONE, scenario)


async def test_a_stop_accepts_flinks_other_spelling_of_the_directory_and_refuses_to_drain() -> None:
    """Spark cannot close all windows at once (REST-20)."""

    async def scenario(http: httpx.AsyncClient, saving: SavepointDispatcher) -> None:
        body = {"targetDirectory": "/saved", "drain": False}
        answer = await http.post(f"/jobs/{RUNNING}/stop", json=body)
        assert answer.status_code == 202
        assert saving.requests == [SavepointRequest(directory="/saved", stop=True)]
        drained = await http.post(f"/jobs/{RUNNING}/stop", json={"drain": True})
        assert drained.status_code == 400

    await with_master(DONE, scenario)


@virtual
async def test_a_failed_operation_is_completed_with_its_cause() -> None:
    async def scenario(http: httpx.AsyncClient, saving: SavepointDispatcher) -> None:
        query = f"triggerId={TRIGGER}"
        assert (await http.post(f"/jobs/{RUNNING}/savepoints?{query}")).status_code == 202
        operation = await outcome(http, f"/jobs/{RUNNING}/savepoints/{TRIGGER}")
        assert "no space" in operation["failure-cause"]["stack-trace"]

    failed = SavepointStatus(done=True, error="StorageUnavailable", message="no space")
    await with_master(failed, scenario)


@virtual
async def test_the_cause_of_a_failed_operation_shows_no_secrets() -> None:
    """Neither a secret setting of the job nor credentials in a URL (REST-16)."""

    async def scenario(http: httpx.AsyncClient, saving: SavepointDispatcher) -> None:
        await http.post(f"/jobs/{RUNNING}/savepoints?triggerId={TRIGGER}")
        await outcome(http, f"/jobs/{RUNNING}/savepoints/{TRIGGER}")
        answer = await http.get(f"/jobs/{RUNNING}/savepoints/{TRIGGER}")
        assert "hunter2" not in answer.text
        assert f"no login at sftp://{MASK}@host with {MASK}" in answer.text

    message = "no login at sftp://tom:hunter2@host with hunter2"
    await with_master(SavepointStatus(done=True, error="E", message=message), scenario)


@virtual
async def test_a_lost_master_fails_the_operation_instead_of_leaving_it_open() -> None:
    async def scenario(http: httpx.AsyncClient, saving: SavepointDispatcher) -> None:
        await http.post(f"/jobs/{RUNNING}/savepoints?triggerId={TRIGGER}")
        operation = await outcome(http, f"/jobs/{RUNNING}/savepoints/{TRIGGER}")
        assert "was lost before it was done" in operation["failure-cause"]["stack-trace"]

    await with_master(NotFound("unknown here"), scenario)


@virtual
async def test_the_outcome_of_an_operation_is_known_when_another_master_leads() -> None:
    """The master that was asked for it answers, and forwards only other questions (OPS-06)."""
    master = Master()
    SavepointDispatcher(master, DONE)
    async with master.in_process() as http:
        await http.post(f"/jobs/{RUNNING}/savepoints?triggerId={TRIGGER}")
        path = f"/jobs/{RUNNING}/savepoints/{TRIGGER}"
        before = await outcome(http, path)
        SavepointDispatcher(master, NotFound("the next leader has taken no savepoint"))
        master.leading = False
        assert await outcome(http, path) == before == {"location": "/saved/one"}
        assert (await http.get(f"/jobs/{RUNNING}/savepoints/{'8' * 32}")).status_code == 503


async def test_an_invalid_savepoint_request_is_refused_at_once() -> None:
    async def scenario(http: httpx.AsyncClient, saving: SavepointDispatcher) -> None:
        answer = await http.post(f"/jobs/{RUNNING}/savepoints?triggerId={TRIGGER}")
        assert answer.status_code == 409
        assert "a batch job" in answer.text
        unknown = await http.get(f"/jobs/{RUNNING}/savepoints/{TRIGGER}")
        assert unknown.status_code == 404

    await with_master(CannotTakeSavepoint("it is a batch job"), scenario)


@virtual
async def test_savepoints_are_listed_and_disposed_of() -> None:
    """The disposal of a path that is no savepoint fails with the reason (DISP-25)."""

    async def scenario(http: httpx.AsyncClient, saving: SavepointDispatcher) -> None:
        listed = (await http.get("/savepoints?directory=/saved")).json()["savepoints"]
        assert [each["path"] for each in listed] == ["/saved/one"]
        for path, trigger in (("/saved/one", "1" * 32), ("/gone", "2" * 32)):
            body = {"savepoint-path": path, "triggerId": trigger}
            assert (await http.post("/savepoint-disposal", json=body)).status_code == 200
        assert await outcome(http, f"/savepoint-disposal/{'1' * 32}") == {}
        failed = await outcome(http, f"/savepoint-disposal/{'2' * 32}")
        assert "there is no such directory" in failed["failure-cause"]["stack-trace"]
        assert saving.disposed == ["/saved/one"]
        assert (await http.post("/savepoint-disposal")).status_code == 400

    await with_master(DONE, scenario)


def savepoint_in(folder: Path, name: str, owner: str) -> Path:
    manifest = SavepointManifest(
        savepoint_id=name,
        kind="savepoint",
        job_id=RUNNING,
        job_name="clicks",
        created_at=5,
        queries=(),
        files=(),
        owner=owner,
    )
    place = folder / name
    place.mkdir()
    (place / MANIFEST).write_bytes(encode_manifest(manifest))
    return place


async def inline(call: Callable[[], T], *, is_long: bool = False) -> T:
    """Virtual time knows no threads."""
    return call()


open_inline = partial(open_place, off_loop=inline)


class DispatcherWithSavepoints(DispatcherInMemory):
    """Lists and removes what is in a directory."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    async def savepoints(self, directory: str | None) -> list[SavepointSummary]:
        return await list_savepoints(str(self.folder), open_inline)

    async def dispose_savepoint(self, path: str, rights: CallerRights | None = None) -> None:
        assert rights is not None
        access = SavepointAccess(owner=rights.name if rights.only_own else None)
        await dispose(path, open_inline, MemoryStorage(), access)


@virtual
async def test_one_sees_and_disposes_of_ones_own_savepoints(tmp_path: Path) -> None:
    saved, elsewhere = tmp_path / "saved", tmp_path / "elsewhere"
    for folder in (saved, elsewhere):
        folder.mkdir()
    paths = {owner: savepoint_in(saved, f"of-{owner}", owner) for owner in ("ana", "bob", "")}
    outside = savepoint_in(elsewhere, "of-ana", "ana")
    tokens = TokenFile(tmp_path / "tokens.json")
    headers = {}
    for name, role in (("ana", Role.SUBMIT), ("op", Role.OPERATE)):
        text = text_of(name, "secret")
        tokens.add(Token(id=name, name=name, role=role, sha256=hash_of(text), created_ms=0))
        headers[name] = {"authorization": f"Bearer {text}"}
    master = Master(
        tokens=tokens,
        dispatcher=DispatcherWithSavepoints(saved),
        places=Places(configured=(str(saved),), off_loop=inline),
    )
    async with master.in_process() as http:

        async def listed(name: str) -> set[str]:
            answer = await http.get("/savepoints", headers=headers[name])
            return {each["path"] for each in answer.json()["savepoints"]}

        async def shown(name: str, path: Path) -> int:
            query = {"path": str(path)}
            answer = await http.get("/savepoints/show", params=query, headers=headers[name])
            return answer.status_code

        async def disposed(path: Path, trigger: str) -> str:
            body = {"savepoint-path": str(path), "triggerId": trigger}
            answer = await http.post("/savepoint-disposal", json=body, headers=headers["ana"])
            if answer.status_code != 200:
                return answer.text
            await wait_until_quiet()
            status = f"/savepoint-disposal/{trigger}"
            found = (await http.get(status, headers=headers["ana"])).json()
            assert found["status"]["id"] == "COMPLETED"
            return str(found["operation"])

        assert await listed("ana") == {str(paths["ana"])}
        assert await listed("op") == {str(path) for path in paths.values()}
        assert [await shown("ana", path) for path in paths.values()] == [200, 403, 403]
        assert await shown("op", paths["bob"]) == 200
        # Also of one's own, a path beside the directories of the configuration is not looked at.
        assert await shown("ana", outside) == 403
        assert "sees savepoints only below" in await disposed(outside, "1" * 32)
        assert "belongs to bob" in await disposed(paths["bob"], "2" * 32)
        assert paths["bob"].exists()
        assert await disposed(paths["ana"], "3" * 32) == "{}"
        assert not (paths["ana"] / MANIFEST).exists()


async def test_the_answer_about_a_savepoint_contains_its_complete_manifest(tmp_path: Path) -> None:
    manifest = SavepointManifest(
        savepoint_id="1",
        kind="savepoint",
        job_id=RUNNING,
        job_name="clicks",
        created_at=5,
        queries=(),
        files=(SavedFile(path="graph.json", size=7, sha256="0" * 64),),
    )
    place = tmp_path / "savepoint-1"
    place.mkdir()
    (place / MANIFEST).write_bytes(encode_manifest(manifest))
    async with Master().in_process() as http:
        shown = await http.get("/savepoints/show", params={"path": str(place)})
        wrong = await http.get("/savepoints/show", params={"path": str(tmp_path / "a" / "b")})
        nothing = await http.get("/savepoints/show")
    assert shown.status_code == 200, shown.text
    answer = shown.json()
    assert (answer["path"], answer["size_bytes"]) == (str(place), 7)
    assert answer["manifest"]["job_name"] == "clicks"
    assert (wrong.status_code, "no such directory" in wrong.text) == (400, True)
    assert nothing.status_code == 400
    assert not (tmp_path / "a").exists()
