"""No answer, page or log shows a secret."""

import time

import msgspec
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from stoker.core.checkpoints import CheckpointEntry
from stoker.core.graph import FormatRead, FormatWrite, Program, Sink, Source
from stoker.core.results import Failure, FailureRecord
from stoker.core.secrets import SURELY_SECRET
from stoker.core.states import ExecutionState, JobStatus
from stoker.security.redaction import (
    LONGEST_DESCRIPTION,
    MASK,
    PARTS_OF_NAMES,
    is_secret,
    masked,
    redact_failure,
    redact_text,
    secret_values,
    secret_values_of,
    without_credentials,
    without_secrets,
)
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import (
    FAILED,
    RUNNING,
    START,
    STREAM,
    job_details,
    new_graph,
    streaming_details,
)

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
        events = await http.get(f"/events?topics=job:{FAILED}")
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
        ("db.passwd", True),
        ("dbpwd", True),
        ("dbpass", True),
        ("jdbc.pass", True),
        ("jdbcPass", True),
        ("mail.pw", True),
        ("fs.azure.account.auth", True),
        ("zookeeper.auth", True),
        ("Authorization", True),
        ("security.authentication-enabled", False),
        ("spark.sql.tokenizer", False),
        ("compass", False),
        ("bypass.count", False),
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
        # Arguments, as a command and as a list.
        ("etl.py --password hunter2 --day 3", f"etl.py --password {MASK} --day 3"),
        ("etl.py --pw x", f"etl.py --pw {MASK}"),
        ("etl.py --db-password='hun ter' x", f"etl.py --db-password='{MASK}' x"),
        ("etl.py --use-token --day 3", "etl.py --use-token --day 3"),
        ("['--api-key', 'hunter2', 'x']", f"['--api-key', '{MASK}', 'x']"),
        # JSON, also inside of a JSON text; YAML; the repr of values.
        ('{"password": "hun\\"ter2", "a": 1}', f'{{"password": "{MASK}", "a": 1}}'),
        ('"{\\"secret\\": \\"x\\", \\"a\\": 1}"', f'"{{\\"secret\\": \\"{MASK}\\", \\"a\\": 1}}"'),
        ("password: hunter2\nuser: tom", f"password: {MASK}\nuser: tom"),
        ("  - dbpwd: hunter2", f"  - dbpwd: {MASK}"),
        ("Login(user='tom', password='hunter2')", f"Login(user='tom', password='{MASK}')"),
        # URLs.
        ("jdbc:oracle:thin:scott/tiger@//h:1521/x", f"jdbc:oracle:thin:{MASK}@//h:1521/x"),
        ("ftp://u:p@ss@h/x", f"ftp://{MASK}@h/x"),
        ("sftp://tom@host/saved", "sftp://tom@host/saved"),
        # Headers.
        ("Authorization: Basic dXNlcjpwYXNz", f"Authorization: {MASK}"),
        ("sent authorization: Bearer abc, refused", f"sent authorization: {MASK}, refused"),
        ("header 'Bearer stk_1234_hunter2-x'", f"header 'Bearer {MASK}'"),
        ("found stk_1a2b3c4d_hunter2 in it", f"found {MASK} in it"),
        ("jdbc.pass=hunter2", f"jdbc.pass={MASK}"),
        ("Access Key = hunter2", f"Access Key = {MASK}"),
        ("a token and a sort key=amount", "a token and a sort key=amount"),
        # No secrets.
        ("bearer authentication is off", "bearer authentication is off"),
        (
            "the cluster requires a token: see the docs",
            "the cluster requires a token: see the docs",
        ),
        ("monkey-island=3 keywords: a", "monkey-island=3 keywords: a"),
        ("tokenizer=simple, secretary: tom", "tokenizer=simple, secretary: tom"),
        ("a compass=north, bypass: no", "a compass=north, bypass: no"),
        ("password == other", "password == other"),
    ],
)
def test_credentials_are_found_in_texts(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


def test_a_common_word_used_as_a_secret_stays_in_errors() -> None:
    given_settings = {"sort-key": "amount", "pin-password": "ab", "api-key": "abcd"}
    assert secret_values(given_settings) == ["abcd"]
    assert masked(given_settings) == dict.fromkeys(given_settings, MASK)


@given(st.text(min_size=4), st.text(), st.text())
def test_a_failure_holds_no_secret_value(secret: str, before: str, after: str) -> None:
    assume(secret.lower() not in ("true", "false", "none", "null"))
    failure = Failure(error="E", message=before + secret + after, stack_trace=secret)
    redacted = redact_failure(failure, secret_values({"password": secret}))
    if secret not in MASK:
        assert secret not in redacted.stack_trace
        assert redacted.message.count(secret) <= (before + MASK + after).count(secret)


WORDS = "token password secret authorization apikey pw stk_a_ x = : :// @ / \" ' \\ -- . , {"
PIECES = st.sampled_from((*WORDS.split(), " ", "\n", ": ", "bearer ", "jdbc:oracle:thin:"))
LONG = 100_000
"""At this length a search that takes quadratic time needs minutes."""


@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=6), st.lists(PIECES, max_size=3))
@example(["token"], [])
@example(["key"], [])
@example(["key "], ["token "])
@example(["token: "], ["a "])
@example(["~token:"], ["a "])
@example(['password="'], [])
@example(["://a"], [])
@example(["jdbc:oracle:thin:"], [])
@example(["-token "], [])
def test_redaction_takes_time_in_proportion_to_the_text(
    pieces: list[str], before: list[str]
) -> None:
    """On the event loop a client could otherwise stop the master with one long query."""
    text = "".join(before) + "".join(pieces) * (LONG // sum(map(len, pieces)))
    began = time.process_time()
    without_credentials(text)
    assert time.process_time() - began < 2.0, pieces


@given(st.text(), st.sampled_from(["password=", '"password": "', "--password ", "\npassword: "]))
def test_a_value_that_follows_its_name_is_never_shown(before: str, name: str) -> None:
    assert "hunter2" not in without_credentials(f"{before} {name}hunter2")


@given(st.from_regex(SURELY_SECRET, fullmatch=True))
def test_every_secret_name_has_a_part_by_which_it_is_found(name: str) -> None:
    if name.isascii():
        assert any(part in name.lower() for part in PARTS_OF_NAMES)


def test_a_letter_that_is_longer_in_lower_case_moves_no_mask() -> None:
    assert without_credentials("İ PASSWORD=hunter2 x") == f"İ PASSWORD={MASK} x"


def test_a_long_description_is_shortened_without_showing_a_part_of_a_secret() -> None:
    secret = "hunter2" * 300
    for text in (secret, f"jdbc://tom:{secret[:500]}@db"):
        for margin in range(0, 1200, 7):
            job = msgspec.structs.replace(
                job_details(RUNNING, JobStatus.RUNNING, ExecutionState.RUNNING),
                parameters={"password": secret},
            )
            first, *_ = job.plan
            query = "x" * margin + text + "y" * 5000
            job = msgspec.structs.replace(
                job, plan=(msgspec.structs.replace(first, description=query),)
            )
            shown = without_secrets(job).plan[0].description
            assert len(shown) <= LONGEST_DESCRIPTION
            assert "hunt" not in shown


def test_a_text_of_a_job_with_very_many_secrets_is_masked_as_a_whole() -> None:
    values = secret_values({f"password.{n}": f"value {n}" for n in range(2000)})
    assert redact_text("SELECT 1", values) == MASK


def test_the_secrets_of_a_job_are_found_wherever_its_graph_has_them() -> None:
    options = {"user": "tom-the-reader", "password": "of the source"}
    graph = new_graph(
        configuration={"spark.x.token": "of the configuration"},
        parameters={"api-key": "of the parameters"},
        vertices=(
            Source(name="a", read=FormatRead(format="jdbc", options=options)),
            Sink(name="b", input="a", write=FormatWrite(format="jdbc", options={"pwd": "sink's"})),
            Program(name="c", script="c.py", environment={"DB_PASSWORD": "of the program"}),
        ),
    )
    assert set(secret_values_of(graph)) == {
        "of the source",
        "of the configuration",
        "of the parameters",
        "sink's",
        "of the program",
    }


def test_a_setting_that_is_on_or_off_is_no_secret_to_search_for() -> None:
    assert secret_values({"token.enabled": "true", "password.check": "False"}) == []
