"""Which callers are admitted, and at which rate."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.client import calls
from stoker.core.ids import JobId
from stoker.rest.http.access import Access, Bucket, RateLimit, UploadLimit, take_request
from stoker.security.tokens import Role, Token, TokenFile, allows, hash_of, text_of
from stoker.testing.sample_jobs import new_graph

NOW = 1_000


@pytest.fixture
def access(tmp_path: Path) -> Access:
    file = TokenFile(tmp_path / "tokens.json")
    for role in Role:
        text = text_of(role.value, "secret")
        file.add(
            Token(id=role.value, name=role.value, role=role, sha256=hash_of(text), created_ms=0)
        )
    over = hash_of(text_of("over", "secret"))
    file.add(
        Token(id="over", name="over", role=Role.OPERATE, sha256=over, created_ms=0, expires_ms=NOW)
    )
    return Access(file, lambda: NOW)


@pytest.mark.parametrize(
    ("authorization", "status", "words"),
    [
        (None, 401, "requires a token"),
        ("Bearer nonsense", 401, "does not belong to this cluster"),
        ("Basic stk_operate_secret", 401, "does not belong to this cluster"),
        ("Bearer stk_operate_wrong", 401, "does not belong to this cluster"),
        ("Bearer stk_over_secret", 401, "has expired"),
        ("Bearer stk_read_secret", 403, "has the role read"),
        ("Bearer stk_submit_secret", 403, "has the role submit"),
    ],
)
def test_a_call_without_a_sufficient_token_is_refused(
    access: Access, authorization: str | None, status: int, words: str
) -> None:
    refused = access.refusal(authorization, "DELETE", "/cluster")
    assert refused is not None
    assert refused.status == status
    assert words in refused.messages[0]
    assert "secret" not in refused.messages[0]
    assert (status == 401) == ("WWW-Authenticate" in refused.headers)


def test_a_sufficient_token_is_admitted(access: Access) -> None:
    assert access.refusal("Bearer stk_operate_secret", "DELETE", "/cluster") is None
    assert access.refusal("bearer  stk_read_secret", "GET", "/jobs/overview") is None


def test_without_a_token_file_every_caller_is_admitted() -> None:
    assert Access(None, lambda: NOW).refusal(None, "DELETE", "/cluster") is None


@given(st.lists(st.floats(0, 10), max_size=200), st.integers(1, 50))
def test_a_caller_never_exceeds_the_rate_plus_one_burst(
    pauses: list[float], per_second: int
) -> None:
    bucket: Bucket | None = None
    now, served = 0.0, 0
    for pause in pauses:
        now += pause
        bucket, wait = take_request(bucket, now, per_second)
        served += wait == 0.0
    assert served <= per_second + now * per_second + 1e-6


def test_a_caller_that_waits_for_retry_after_is_served() -> None:
    bucket: Bucket | None = None
    for _ in range(3):
        bucket, wait = take_request(bucket, 0.0, 3)
        assert wait == 0.0
    bucket, wait = take_request(bucket, 0.0, 3)
    assert wait > 0
    _, wait = take_request(bucket, wait + 1e-9, 3)
    assert wait == 0.0


def test_callers_have_separate_rates() -> None:
    limit = RateLimit(1)
    assert limit.refusal("a", 0.0) is None
    refused = limit.refusal("a", 0.0)
    assert refused is not None
    assert (refused.status, refused.headers["Retry-After"]) == (429, "2")
    assert limit.refusal("b", 0.0) is None


def test_old_callers_are_forgotten() -> None:
    limit = RateLimit(1, max_callers=2)
    for caller in ("a", "b", "c"):
        assert limit.refusal(caller, 0.0) is None
    assert limit.refusal("a", 0.0) is None


def test_uploads_beyond_the_limit_are_refused() -> None:
    uploads = UploadLimit(1)
    assert uploads.begin() is None
    refused = uploads.begin()
    assert refused is not None
    assert refused.status == 429
    uploads.end()
    assert uploads.begin() is None


def test_the_submit_role_may_submit_and_follow_jobs_and_send_heartbeats_and_nothing_else() -> None:
    """Uses the paths of the real client calls."""
    job = JobId("a" * 32)
    allowed = [
        calls.submit(new_graph()),
        calls.job(job),
        calls.status(job),
        calls.exceptions(job),
        calls.heartbeat(job, 1.0),
    ]
    refused = [calls.cancel(job), calls.jobs(), calls.quarantined(), calls.task_executors()]
    assert all(allows(Role.SUBMIT, call.method, call.path) for call in allowed)
    assert not any(allows(Role.SUBMIT, call.method, call.path) for call in refused)
