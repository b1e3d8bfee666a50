"""The topics of a stream."""

import pytest

from stoker.core.errors import InvalidInput
from stoker.rest.events.topics import DEFAULT, MAX_JOBS, parse_topics
from stoker.testing.sample_jobs import RUNNING


def test_topics_may_be_combined_and_repeated() -> None:
    topics = parse_topics(f"log, jobs,job:{RUNNING.upper()},jobs,job:{RUNNING}")
    assert topics.names() == ["jobs", "log", f"job:{RUNNING}"]
    assert topics.of_feed == {"jobs"}
    assert parse_topics(DEFAULT).names() == ["jobs", "cluster"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "at least one topic"),
        (" , ", "at least one topic"),
        ("job", "did you mean"),
        ("clusters", "did you mean 'cluster'"),
        ("jobs:1", "write job:ID"),
        ("job:1", "32 hexadecimal digits"),
        (",".join(f"job:{number:032x}" for number in range(MAX_JOBS + 1)), "at most 20 jobs"),
    ],
)
def test_a_topic_that_does_not_exist_is_refused_with_a_remedy(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        parse_topics(text)
