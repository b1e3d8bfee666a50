"""The plan of a query's state, beside its checkpoint: put down at its beginning, compared later."""

import os
from pathlib import Path

import pyspark

from stoker.core.failpoints import failpoint
from stoker.engine.failures import CannotRun
from stoker.engine.region.compile import DataFrame
from stoker.engine.region.locations import Place
from stoker.savepoints.state_plans import (
    STATE_PLAN,
    StatePlan,
    changed_plan,
    decode_plan,
    encode_plan,
    state_plan,
)


def keep_state_plan(sink: str, frame: DataFrame, checkpoint: Place, *, restored: bool) -> None:
    """Where the checkpoint is on this machine's file system; elsewhere it cannot be kept.

    Of a job that goes on from a savepoint the plan is compared with the one that is there.
    """
    if checkpoint.local is None:
        return
    path = checkpoint.local / STATE_PLAN
    before = _read(path)
    if before is not None and not restored:
        return
    now = state_plan(frame._explain_string(extended=True), pyspark.__version__)
    if before is not None:
        for words in changed_plan(before, now):
            raise CannotRun(
                "IncompatibleState",
                f"{sink} {words}: Spark would take the one for the other without a word; keep it "
                "as it was, or begin a query under another sink name",
            )
    if now != before:
        _write(path, encode_plan(now))


def _read(path: Path) -> StatePlan | None:
    try:
        return decode_plan(path.read_bytes())
    except OSError:
        return None


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all. Where that cannot be done Spark cannot write either, and says so."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(content)
        failpoint("state-plan.before-publishing")
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
