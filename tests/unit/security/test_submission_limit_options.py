"""Defaults of limits by role, as an operator writes them."""

import pytest

from stoker.core.errors import InvalidOption
from stoker.security.options import SubmissionLimitOptions
from stoker.security.submission_limits import NO_LIMITS, SubmissionLimits
from stoker.security.tokens import Role


def test_defaults_are_given_by_role() -> None:
    options = SubmissionLimitOptions(
        queues={"submit": "adhoc nightly"},
        max_priority={"submit": "-1", "operate": "5"},
        max_jobs={"submit": "0"},
        max_submissions={"submit": "30"},
    )
    assert options.by_role() == {
        Role.SUBMIT: SubmissionLimits(
            queues=("adhoc", "nightly"), max_priority=-1, max_jobs=0, max_submissions=30
        ),
        Role.OPERATE: SubmissionLimits(max_priority=5),
    }
    assert set(SubmissionLimitOptions().by_role().values()) == {NO_LIMITS}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"max_jobs": {"read": "1"}}, "tokens that submit jobs have the role submit or operate"),
        ({"max_jobs": {"submit": "many"}}, "write a whole number from 0 up"),
        ({"max_priority": {"submit": "high"}}, "write a whole number"),
        ({"queues": {"submit": " "}}, "names no queue"),
    ],
)
def test_a_wrong_default_is_refused_with_its_key(
    fields: dict[str, dict[str, str]], words: str
) -> None:
    with pytest.raises(InvalidOption, match=words) as refused:
        SubmissionLimitOptions(**fields)
    assert refused.value.facts["key"].startswith("security.rest.limits.")
