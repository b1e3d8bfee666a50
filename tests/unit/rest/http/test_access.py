"""Which callers are admitted, and at which rate."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.rest.http.access import (
    ANYONE,
    Access,
    Bucket,
    ConcurrencyLimit,
    RateLimit,
    Requester,
    take_request,
)
from stoker.security.submission_limits import SubmissionLimits
from stoker.security.tokens import Permission, Role, Token, TokenFile, hash_of, text_of

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
    caller = access.identify(authorization)
    refused = caller.refusal(Permission.OPERATE) if isinstance(caller, Requester) else caller
    assert refused is not None
    assert refused.status == status
    assert words in refused.messages[0]
    assert "secret" not in refused.messages[0]
    assert (status == 401) == ("WWW-Authenticate" in refused.headers)


def test_a_sufficient_token_is_admitted(access: Access) -> None:
    operator = access.identify("Bearer stk_operate_secret")
    reader = access.identify("bearer  stk_read_secret")
    assert operator == Requester(role=Role.OPERATE, token="operate", name="operate")
    assert reader == Requester(role=Role.READ, token="read", name="read")
    assert operator.refusal(Permission.OPERATE) is None
    assert reader.refusal(Permission.READ) is None


def test_limits_of_a_token_come_before_those_of_its_role(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    sha256 = hash_of(text_of("ana", "secret"))
    own = SubmissionLimits(max_jobs=7)
    file.add(Token(id="ana", name="ana", role=Role.SUBMIT, sha256=sha256, created_ms=0, limits=own))
    defaults = {Role.SUBMIT: SubmissionLimits(max_jobs=1, max_priority=3)}
    caller = Access(file, lambda: NOW, limits=defaults).identify("Bearer stk_ana_secret")
    assert isinstance(caller, Requester)
    assert caller.rights.limits == SubmissionLimits(max_jobs=7, max_priority=3)
    assert caller.rights.name == "ana"


def test_without_a_token_file_every_caller_is_admitted() -> None:
    assert Access(None, lambda: NOW).identify(None) == ANYONE
    assert ANYONE.refusal(Permission.OPERATE) is None


def test_a_damaged_token_file_admits_nobody_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text("{")
    refused = Access(TokenFile(path), lambda: NOW).identify("Bearer stk_operate_secret")
    assert not isinstance(refused, Requester)
    assert refused.status == 503
    assert "is not a file of tokens" in refused.messages[0]


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


def test_requests_beyond_the_limit_of_their_kind_are_refused() -> None:
    uploads = ConcurrencyLimit(1, "uploads")
    assert uploads.begin("a") is None
    refused = uploads.begin("b")
    assert refused is not None
    assert refused.status == 429
    assert "1 uploads are in progress" in refused.messages[0]
    uploads.end("a")
    assert uploads.begin("b") is None


@given(
    st.integers(0, 6),
    st.integers(0, 4),
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["begin", "end"]))),
)
def test_no_caller_has_more_than_its_share(
    limit: int, per_caller: int, events: list[tuple[str, str]]
) -> None:
    streams = ConcurrencyLimit(limit, "streams", per_caller=per_caller)
    served = dict.fromkeys("abc", 0)
    for caller, event in events:
        if event == "end":
            if served[caller]:
                streams.end(caller)
                served[caller] -= 1
            continue
        refused = streams.begin(caller)
        is_own_limit = served[caller] >= per_caller
        assert (refused is not None) == (is_own_limit or sum(served.values()) >= limit)
        if refused is None:
            served[caller] += 1
        else:
            assert refused.status == 429
            assert (f"to {caller}" in refused.messages[0]) == is_own_limit
