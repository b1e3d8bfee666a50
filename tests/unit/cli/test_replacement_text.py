"""What a command prints about a job that is being replaced."""

import pytest

from builders import BACK, NEW, build_replacement
from stoker.api.operations import answer_of
from stoker.cli.follow import replacement_text
from stoker.core.replacements import ReplacementPhase


def text(phase: ReplacementPhase, **more: str) -> str:
    plan = build_replacement(phase=phase, savepoint="/saved/savepoint-1", **more)
    return replacement_text(answer_of(plan).operation)


@pytest.mark.parametrize("phase", ReplacementPhase)
def test_every_phase_has_a_text(phase: ReplacementPhase):
    assert text(phase, reason="other schema")


def test_the_last_line_names_the_running_job_and_its_savepoint():
    assert NEW in text(ReplacementPhase.DONE)
    back = text(ReplacementPhase.ROLLED_BACK, reason="other schema", origin="/retained")
    assert BACK in back
    assert "other schema" in back
    assert "from /retained" in back


def test_a_failed_replacement_names_the_reason():
    assert "no boundary" in text(ReplacementPhase.FAILED, reason="no boundary")


def test_a_reason_is_told_once():
    plan = build_replacement(phase=ReplacementPhase.ROLLED_BACK, savepoint="/s", reason="pages")
    state = answer_of(plan).operation
    assert "pages" not in replacement_text(state, told="pages")
    assert "pages" in replacement_text(state, told="another")
    returning = build_replacement(phase=ReplacementPhase.RETURNING, savepoint="/s", reason="pages")
    told = replacement_text(answer_of(returning).operation, told="pages")
    assert told == "Starting the old version again."
