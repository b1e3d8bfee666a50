"""An editor completes the keywords of source, transform and sink, and their usual values."""

import inspect
from typing import get_args

import pytest

from stoker import Pipeline
from stoker.core.checks.vertices import BATCH_MODES, STREAMING_MODES
from stoker.core.formats import KNOWN_FORMATS
from stoker.core.triggers import parse_trigger
from stoker.pipeline.vertex_arguments import Format, Mode, Trigger


def literals(union: object) -> set[str]:
    return {value for part in get_args(union) for value in get_args(part) if isinstance(value, str)}


def test_every_known_format_is_completed() -> None:
    assert literals(Format) == set(KNOWN_FORMATS)


def test_every_mode_is_completed() -> None:
    assert literals(Mode) == {*BATCH_MODES, *STREAMING_MODES}


def test_every_completed_trigger_is_one() -> None:
    for text in literals(Trigger):
        parse_trigger(text)


@pytest.mark.parametrize(
    ("method", "keywords"),
    [
        (
            Pipeline.source,
            "name format path schema table sql streaming materialized options",
        ),
        (Pipeline.transform, "name sql inputs materialized"),
        (Pipeline.sink, "input name format path table mode trigger partition_by options"),
    ],
)
def test_help_and_editors_see_each_keyword(method: object, keywords: str) -> None:
    assert callable(method)
    named = {
        name
        for name, parameter in inspect.signature(method).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }
    assert named - {"self", "what"} == set(keywords.split())
    documented = inspect.getdoc(method) or ""
    assert [word for word in keywords.split() if f"`{word}`" not in documented] == []


def test_a_keyword_of_none_counts_as_left_out() -> None:
    job = Pipeline("job")
    job.source("numbers", sql="SELECT 1 AS one", format=None, path=None)

    @job.sink("numbers", format=None)
    def store(df: object) -> None: ...

    assert [draft.name for draft in job.draft().vertices] == ["numbers", "store"]
