"""Every failpoint has a test in which somebody dies there, or a reason why it needs none."""

from pathlib import Path

import pytest

from chaos.test_deaths_of_owners import OF_DRIVERS
from simulation.test_crash_sweep import PASSED
from simulation.test_replacements import DEATHS
from simulation.test_shutdown import ON_THE_WAY
from stoker.core import failpoints
from unit.engine.output.test_publish import PUBLISHING
from unit.ha.test_stores_under_faults import STORE_FAILPOINTS
from unit.savepoints.test_take_and_restore import TAKING

TESTS = Path(__file__).parents[2]

ALL = frozenset[str]().union(
    *(
        value
        for name, value in vars(failpoints).items()
        if name.endswith("FAILPOINTS") and isinstance(value, frozenset)
    )
)

SWEPT = frozenset(
    {
        *PASSED,
        *STORE_FAILPOINTS,
        *PUBLISHING,
        *TAKING,
        *ON_THE_WAY,
        *OF_DRIVERS,
        *(name for _, name, _ in DEATHS),
    }
)
"""What tests are made for, name by name."""

NAMED = {
    "materialized.": "integration/engine/test_exactly_once.py",
    "state-plan.": "unit/engine/streams/test_saved_state.py",
    "sink-log.": "unit/engine/streams/test_sink_position.py",
    "environment.before-publishing": "integration/engine/test_python_environments.py",
    "environment.after-publishing": "integration/engine/test_python_environments.py",
    "provider.": "chaos/test_deaths_of_owners.py",
    "server.": "chaos/test_deaths_of_owners.py",
    "runner.": "chaos/test_deaths_of_owners.py",
    "takeover.": "chaos/test_deaths_of_owners.py",
    "uninterruptible-tasks.": "chaos/test_deaths_of_owners.py",
    "recycling.": "chaos/test_deaths_of_owners.py",
    "programs.": "unit/rest/programs/test_store.py",
    "restore.": "unit/savepoints/test_take_and_restore.py",
    "dispose.": "unit/savepoints/test_take_and_restore.py",
    "stop.before-record": "simulation/test_replacements.py",
    "stop.after-record": "simulation/test_savepoints.py",
    "savepoints.after-record": "simulation/test_savepoints.py",
    "shutdown.before-forgetting": "simulation/test_shutdown.py",
    "shutdown.after-forgetting": "simulation/test_shutdown.py",
}
"""The beginning of a name, and the test that dies at all that begin so."""

GROUPS = {
    "provider.": "PROVIDER_FAILPOINTS",
    "programs.": "REST_FAILPOINTS",
    **dict.fromkeys(
        ("server.", "runner.", "takeover.", "uninterruptible-tasks.", "recycling."),
        "ENGINE_FAILPOINTS",
    ),
}
"""Named there by the whole group."""

NOT_SWEPT = {
    "lease.before-ending": "a runner is about to end its task; its death is tried at any moment by "
    "integration/engine/test_kills.py",
    "lease.before-killing": "a warden or a driver is about to kill what ends with it anyway",
    "savepoints.before-record": "nothing has been done yet: it is as if it had not been asked for",
    "replacements.before-division": "as after the phase before, since nothing has been done yet",
    "replacements.after-division": "what was divided is divided again; it has no name yet",
    "replacements.before-removing-record": "of one that is long over, tried again at the next",
    "replacements.before-removing-content": "content that no record points to",
}


@pytest.mark.parametrize("beginning", sorted(NAMED))
def test_the_test_that_is_named_speaks_of_it(beginning: str) -> None:
    text = (TESTS / NAMED[beginning]).read_text()
    assert GROUPS.get(beginning, beginning) in text
    assert any(name.startswith(beginning) for name in ALL)


def test_every_failpoint_is_swept_or_says_why_not() -> None:
    named = {name for name in ALL if name.startswith(tuple(NAMED))}
    assert ALL - SWEPT - named - NOT_SWEPT.keys() == set()


def test_no_reason_is_there_for_nothing() -> None:
    assert NOT_SWEPT.keys() <= ALL - SWEPT
