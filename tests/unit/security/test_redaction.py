"""No answer, page or log shows a secret."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.checkpoints import CheckpointEntry
from stoker.core.results import Failure, FailureRecord
from stoker.security.redaction import (
    MASK,
    is_secret,
    masked,
    redact_failure,
    secret_values,
    without_credentials,
)
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import FAILED, RUNNING, START, STREAM, streaming_details

SECRET = "hunter2"
URL = f"jdbc:postgresql://tom:{SECRET}@db/x?password={SECRET}&ssl=true"
FAILURE = Failure(
    error="AnalysisException",
    message=f"cannot connect with {SECRET}",
    stack_trace=f'File "job.py", line 3\n  connect("{URL}")',
)


@pytest.fixture
def master() -> Master:
    """A master with a failed job that has secrets in its settings, its plan and its errors."""
    master = Master()
    for job_id in (RUNNING, FAILED):
        job = master.dispatcher.jobs[job_id]
        first, *others = job.plan
        record = FailureRecord(failure=FAILURE, at=START)
        master.dispatcher.jobs[job_id] = msgspec.structs.replace(
            job,
            failures=(msgspec.structs.replace(record, concurrent=(record,)),),
            plan=(
                msgspec.structs.replace(first, description=f"jdbc <{URL}>"),
                msgspec.structs.replace(first, description=f"SELECT login('{SECRET}')"),
                *others,
            ),
        )
    return master


@pytest.mark.parametrize("job_id", [RUNNING, FAILED])
@pytest.mark.parametrize(
    "path",
    [
        "/jobs/{job}",
        "/jobs/{job}/config",
        "/jobs/{job}/details",
        "/jobs/{job}/exceptions",
        "/jobs/{job}/execution-result",
        "/jobs/{job}/plan",
        "/applications/{job}/exceptions",
        "/jobs/{job}/jobmanager/config",
        "/jobs/overview",
        "/config",
        "/jobmanager/config",
        "/jobmanager/environment",
    ],
)
async def test_secrets_are_never_shown(master: Master, path: str, job_id: str) -> None:
    """No answer about jobs or the configuration contains one (REST-16)."""
    async with master.in_process() as http:
        answer = await http.get(path.format(job=job_id))
    assert answer.status_code == 200
    assert SECRET not in answer.text


async def test_secrets_are_redacted_and_the_rest_is_shown(master: Master) -> None:
    async with master.in_process() as http:
        config = (await http.get(f"/jobs/{FAILED}/config")).text
        history = (await http.get(f"/jobs/{FAILED}/exceptions")).json()["exceptionHistory"]
        events = await http.get(f"/jobs/{FAILED}/events")
    assert MASK in config
    assert "2026-11-01" in config
    trace = history["entries"][0]["stacktrace"]
    assert f"jdbc:postgresql://{MASK}@db/x?password={MASK}&ssl=true" in trace
    assert SECRET not in events.text


LOCATION = f"sftp://tom:{SECRET}@host/saved/one"


def with_secret(entry: CheckpointEntry | None) -> CheckpointEntry | None:
    return entry and msgspec.structs.replace(
        entry, path=LOCATION, failure=f"no login with {SECRET}"
    )


@pytest.mark.parametrize("path", ["details", "checkpoints", "checkpoints/details/{number}"])
async def test_checkpoints_show_no_secrets(path: str) -> None:
    """Neither in the location of a savepoint nor in the reason why one failed (REST-16)."""
    job = streaming_details()
    known = job.checkpoints
    assert known.latest_failed is not None
    assert known.restored is not None
    history = tuple(entry for each in known.history if (entry := with_secret(each)))
    checkpoints = msgspec.structs.replace(
        known,
        history=history,
        latest_completed=with_secret(known.latest_completed),
        latest_savepoint=with_secret(known.latest_savepoint),
        latest_failed=with_secret(known.latest_failed),
        restored=msgspec.structs.replace(known.restored, path=LOCATION),
        retained=history[0],
    )
    master = Master()
    master.dispatcher.jobs[STREAM] = msgspec.structs.replace(job, checkpoints=checkpoints)
    async with master.in_process() as http:
        answer = await http.get(f"/jobs/{STREAM}/{path.format(number=known.latest_failed.id)}")
    assert answer.status_code == 200
    assert SECRET not in answer.text
    assert f"no login with {MASK}" in answer.text


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("db.password", True),
        ("fs.s3a.access.key", True),
        ("auth.token", True),
        ("awsAccessKey", True),
        ("privateKey", True),
        ("spark.sql.keywords", False),
        ("monkey.count", False),
        ("monkey-island", False),
        ("sort-key", True),
        ("apikey", True),
        ("AWS_ACCESS_KEY_ID", True),
        ("ssh.passphrase", True),
        ("key", True),
    ],
)
def test_settings_are_secret_by_their_names(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://key:secret@bucket/x", f"s3://{MASK}@bucket/x"),
        ("http://host:8081/a@b", "http://host:8081/a@b"),
        ("user=u;PassWord=abc;x=1", f"user=u;PassWord={MASK};x=1"),
        ("column amount is not there", "column amount is not there"),
        ("my_token = abc, b", f"my_token = {MASK}, b"),
    ],
)
def test_credentials_are_found_in_texts(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


def test_a_common_word_used_as_a_secret_stays_in_errors() -> None:
    settings = {"sort-key": "amount", "pin-password": "ab", "api-key": "abcd"}
    assert secret_values(settings) == ["abcd"]
    assert masked(settings) == dict.fromkeys(settings, MASK)


@given(st.text(min_size=4), st.text(), st.text())
def test_a_failure_holds_no_secret_value(secret: str, before: str, after: str) -> None:
    failure = Failure(error="E", message=before + secret + after, stack_trace=secret)
    redacted = redact_failure(failure, secret_values({"password": secret}))
    if secret not in MASK:
        assert secret not in redacted.stack_trace
        assert redacted.message.count(secret) <= (before + MASK + after).count(secret)
