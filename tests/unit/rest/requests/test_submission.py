"""POST /jobs"""

import os
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from stoker.core.errors import NoLeader, StorageUnavailable
from stoker.core.options import ByteSize
from stoker.gateways.dispatcher import DispatcherGateway
from stoker.rest.options import RestOptions
from stoker.rest.requests.uploads import FileWriter, remove_leftovers
from stoker.testing.rest import Master, parts
from stoker.testing.sample_jobs import FINISHED, NEW, RUNNING, artifact, new_graph

WHEEL = b"wheel content " * 1000


@pytest.fixture
def master(tmp_path: Path) -> Master:
    return Master(options=RestOptions(bind_port="0", upload_directory=tmp_path))


async def post(master: Master, files: Any, **headers: str) -> httpx.Response:
    async with master.in_process() as http:
        return await http.post("/jobs", files=files, headers=headers)


def leftovers(master: Master) -> list[Path]:
    assert master.options.upload_directory is not None
    return list(master.options.upload_directory.iterdir())


async def test_a_graph_with_its_files_becomes_a_job(master: Master) -> None:
    """The dispatcher gets the graph with the keys of its stored files (REST-08)."""
    graph = new_graph(artifacts=(artifact(WHEEL),))
    answer = await post(master, parts(graph, WHEEL))
    assert answer.status_code == 202
    assert answer.json() == {
        "jobUrl": f"/jobs/{NEW}",
        "jobId": NEW,
        "repeated": False,
        "continuesFrom": None,
    }
    assert master.blobs.content[NEW, graph.artifacts[0].sha256] == WHEEL
    assert master.dispatcher.graphs[NEW].artifacts[0].key == f"{NEW}/{graph.artifacts[0].sha256}"
    assert leftovers(master) == []


def test_what_killed_masters_left_of_requests_is_removed(tmp_path: Path) -> None:
    """Other masters may use the same directory, and somebody else's files are not touched."""
    for name, at in (
        ("stoker-upload-old", 100.0),
        ("stoker-program-old", 100.0),
        ("stoker-upload-new", 300.0),
        ("mine-old", 100.0),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0").write_bytes(b"half")
        os.utime(tmp_path / name, (at, at))
    remove_leftovers(tmp_path, before=200.0)
    assert {path.name for path in tmp_path.iterdir()} == {"stoker-upload-new", "mine-old"}
    remove_leftovers(tmp_path / "absent", before=200.0)


async def test_a_repeated_submission_is_reported_as_such(master: Master) -> None:
    await post(master, parts(new_graph()))
    answer = await post(master, parts(new_graph()))
    assert answer.status_code == 202
    assert answer.json()["repeated"] is True


async def test_the_files_of_a_request_are_removed_in_a_thread(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The removal of gigabytes must not hold up the renewal of leases."""
    threads: list[threading.Thread] = []
    remove = shutil.rmtree

    def record(path: Path, ignore_errors: bool) -> None:
        threads.append(threading.current_thread())
        remove(path, ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", record)
    await post(master, parts(new_graph(artifacts=(artifact(WHEEL),)), WHEEL))
    assert leftovers(master) == []
    assert len(threads) == 1
    assert threading.current_thread() not in threads


class LeaderlessMaster(Master):
    async def find_dispatcher(self) -> DispatcherGateway:
        raise NoLeader("no dispatcher leads at the moment")


@pytest.mark.parametrize("path", ["/jobs", f"/jobs/{RUNNING}/upgrade"])
async def test_a_refused_upload_is_read_to_its_end_so_that_the_client_sees_the_reason(
    path: str,
) -> None:
    pieces = [b"--x\r\n", b"more", b"the end"]

    async def content() -> AsyncIterator[bytes]:
        while pieces:
            yield pieces.pop(0)

    kind = {"content-type": "multipart/form-data; boundary=x"}
    async with LeaderlessMaster().in_process() as http:
        answer = await http.post(path, content=content(), headers=kind)
    assert answer.status_code == 503
    assert pieces == []


async def test_the_idempotency_key_of_the_header_reaches_the_dispatcher(master: Master) -> None:
    await post(master, parts(new_graph()), **{"Idempotency-Key": "daily-run"})
    assert master.dispatcher.graphs[NEW].idempotency_key == "daily-run"


async def test_an_idempotency_key_that_differs_from_the_graphs_is_refused(master: Master) -> None:
    graph = new_graph(idempotency_key="one")
    answer = await post(master, parts(graph), **{"Idempotency-Key": "two"})
    assert answer.status_code == 400
    assert "differ" in answer.json()["errors"][0]


async def test_two_artifacts_of_the_same_content_need_one_file(master: Master) -> None:
    graph = new_graph(artifacts=(artifact(WHEEL, "a.whl"), artifact(WHEEL, "b.whl")))
    answer = await post(master, parts(graph, WHEEL))
    assert answer.status_code == 202
    assert len(master.blobs.content) == 1


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (parts(new_graph(artifacts=(artifact(WHEEL),))), "not in the request: lib.whl"),
        (parts(new_graph(), WHEEL), "that the graph does not name: 'lib.whl'"),
        (parts(new_graph(artifacts=(artifact(WHEEL),)), WHEEL[:-1] + b"X"), "damaged in transit"),
        (parts(new_graph(artifacts=(artifact(WHEEL),)), WHEEL, WHEEL), "same file twice"),
        ([("artifact", ("a", b"x"))], "'graph' with the job graph as JSON is missing"),
        (parts(new_graph()) * 2, "'graph' occurs twice"),
        ([*parts(new_graph()), ("jar", ("a.jar", b"x"))], "unknown part 'jar'"),
        (parts(b"{"), "the job graph cannot be read"),
        (parts(b'{"name": "\xff"}'), "the job graph cannot be read: it is not UTF-8"),
        (parts(b'{"more": ' + b"[" * 100_000), "cannot be read: it is nested too deeply"),
        (parts(b'{"job_id": 3}'), "cannot be read: Expected `str`, got `int` - at `$.job_id`"),
        (parts(new_graph(version=99)), "has version 99, this master reads 1"),
        (parts(new_graph(job_id="../../etc")), "32 lower-case hexadecimal digits"),
    ],
)
async def test_a_faulty_submission_is_400_with_its_reason_and_leaves_no_files(
    master: Master, files: Any, message: str
) -> None:
    """Nor does the dispatcher see its graph (REST-09, REST-10)."""
    answer = await post(master, files)
    assert answer.status_code == 400
    assert message in answer.json()["errors"][0]
    assert master.dispatcher.graphs == {}
    assert master.blobs.content == {}
    assert leftovers(master) == []


async def test_all_faults_of_a_graph_are_reported(master: Master) -> None:
    answer = await post(master, parts(new_graph(vertices=())))
    assert answer.status_code == 400
    assert answer.json()["errors"] == ["the graph has no sink", "add one"]


async def test_a_job_that_has_ended_is_not_accepted_again(master: Master) -> None:
    answer = await post(master, parts(new_graph(job_id=FINISHED)))
    assert answer.status_code == 409
    assert "has already ended" in answer.json()["errors"][0]


@pytest.mark.parametrize("name", ["evil", "../evil", "../../evil", "../../../evil", "{above}/evil"])
async def test_an_uploaded_file_name_is_never_used_as_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """No file is left below, beside or above the upload directory (REST-10).

    The files of an accepted job leave their place, those of a refused one would stay outside.
    """
    uploads, current = tmp_path / "above" / "uploads", tmp_path / "a" / "b" / "c" / "current"
    for directory in (uploads, current):
        directory.mkdir(parents=True)
    monkeypatch.chdir(current)
    master = Master(options=RestOptions(bind_port="0", upload_directory=uploads))
    before = sorted(tmp_path.rglob("*"))
    name = name.format(above=tmp_path / "above")
    for artifacts, status in ((), 400), ((artifact(WHEEL),), 202):
        answer = await post(master, parts(new_graph(artifacts=artifacts), WHEEL, name=name))
        assert answer.status_code == status
        assert sorted(tmp_path.rglob("*")) == before


async def test_a_request_above_the_limit_is_413_and_names_the_option(tmp_path: Path) -> None:
    """The request declares its length (REST-04)."""
    options = RestOptions(
        bind_port="0", upload_directory=tmp_path, max_content_length=ByteSize(1000)
    )
    master = Master(options=options)
    answer = await post(master, parts(new_graph(), WHEEL))
    assert answer.status_code == 413
    assert "rest.server.max-content-length" in answer.json()["errors"][0]
    assert leftovers(master) == []


async def test_a_stream_without_a_length_is_stopped_at_the_limit_too(tmp_path: Path) -> None:
    """The server counts what arrives (REST-04)."""
    options = RestOptions(
        bind_port="0", upload_directory=tmp_path, max_content_length=ByteSize(10_000)
    )
    master = Master(options=options)

    async def pieces() -> Any:
        yield b'--x\r\nContent-Disposition: form-data; name="artifact"; filename="a"\r\n\r\n'
        for _ in range(100):
            yield b"0" * 1000

    async with master.in_process() as http:
        answer = await http.post(
            "/jobs", content=pieces(), headers={"content-type": "multipart/form-data; boundary=x"}
        )
    assert answer.status_code == 413
    assert leftovers(master) == []


async def test_a_graph_of_50_mb_is_413_and_names_the_option(master: Master) -> None:
    answer = await post(master, parts(b" " * 50_000_000))
    assert answer.status_code == 413
    assert "rest.server.max-graph-size" in answer.json()["errors"][0]


@pytest.mark.parametrize("content_type", ["application/json", "multipart/form-data", ""])
async def test_a_body_that_is_not_multipart_is_refused_with_an_explanation(
    master: Master, content_type: str
) -> None:
    async with master.in_process() as http:
        answer = await http.post("/jobs", content=b"{}", headers={"content-type": content_type})
    assert answer.status_code == 400
    assert "multipart/form-data with a part named 'graph'" in answer.json()["errors"][0]


async def test_a_truncated_multipart_body_is_400(master: Master) -> None:
    async with master.in_process() as http:
        answer = await http.post(
            "/jobs",
            content=b'--x\r\nContent-Disposition: form-data; name="graph"\r\n\r\n{}',
            headers={"content-type": "multipart/form-data; boundary=x"},
        )
    assert answer.status_code == 400
    assert "multipart body cannot be read" in answer.json()["errors"][0]
    assert leftovers(master) == []


async def test_a_blob_store_that_is_full_is_503_and_nothing_is_submitted(master: Master) -> None:
    master.blobs.refusal = StorageUnavailable("the storage directory is full")
    answer = await post(master, parts(new_graph(artifacts=(artifact(WHEEL),)), WHEEL))
    assert answer.status_code == 503
    assert answer.json()["errors"] == ["the storage directory is full"]
    assert master.dispatcher.graphs == {}


def with_a_file() -> list[Any]:
    return parts(new_graph(artifacts=(artifact(WHEEL),)), WHEEL)


async def test_a_removed_upload_directory_is_created_again(tmp_path: Path) -> None:
    """Somebody may clean up temporary directories while the master runs (X-REST-03)."""
    options = RestOptions(bind_port="0", upload_directory=tmp_path / "gone")
    answer = await post(Master(options=options), with_a_file())
    assert answer.status_code == 202
    assert list((tmp_path / "gone").iterdir()) == []


async def test_an_unusable_upload_directory_is_reported_with_its_option(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    options = RestOptions(bind_port="0", upload_directory=tmp_path / "file" / "uploads")
    answer = await post(Master(options=options), with_a_file())
    assert answer.status_code == 503
    assert "web.upload.dir" in answer.json()["errors"][0]
    assert str(options.upload_directory) in answer.json()["errors"][0]


async def test_a_submission_without_files_needs_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    options = RestOptions(bind_port="0", upload_directory=tmp_path / "file" / "uploads")
    answer = await post(Master(options=options), parts(new_graph()))
    assert answer.status_code == 202


async def test_a_full_disk_is_an_error_of_the_write() -> None:
    writer = FileWriter(Path("/dev/full"), "lib.whl")
    await writer.add(b"x")
    with pytest.raises(OSError, match="No space left"):
        await writer.finish()
    writer.close()
