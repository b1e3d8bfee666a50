"""Every failpoint has a test that crashes a process there, or a reason why it needs none."""

from pathlib import Path

import pytest

from chaos.test_deaths_of_owners import TESTED_DRIVER_FAILPOINTS
from simulation.test_crash_sweep import PASSED
from simulation.test_events import IN_A_LOG
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
        *IN_A_LOG,
        *STORE_FAILPOINTS,
        *PUBLISHING,
        *TAKING,
        *ON_THE_WAY,
        *TESTED_DRIVER_FAILPOINTS,
        *(name for _, name, _ in DEATHS),
    }
)
"""Failpoints that crash sweeps list one by one."""

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
    "replacements.before-division": "simulation/test_replacements.py",
    "replacements.after-division": "simulation/test_replacements.py",
    "stop.before-record": "simulation/test_replacements.py",
    "stop.after-record": "simulation/test_savepoints.py",
    "savepoints.after-record": "simulation/test_savepoints.py",
    "events.before-settings": "unit/events/test_settings.py",
    "events.after-settings": "unit/events/test_settings.py",
    "shutdown.before-forgetting": "simulation/test_shutdown.py",
    "shutdown.after-forgetting": "simulation/test_shutdown.py",
}
"""Prefixes of failpoint names, and the test that crashes at all failpoints with the prefix."""

GROUPS = {
    "provider.": "PROVIDER_FAILPOINTS",
    "programs.": "REST_FAILPOINTS",
    **dict.fromkeys(
        ("server.", "runner.", "takeover.", "uninterruptible-tasks.", "recycling."),
        "ENGINE_FAILPOINTS",
    ),
}
"""Prefixes whose test names the constant of the whole group instead of each failpoint."""

NOT_SWEPT = {
    "lease.before-ending": "a runner is about to end its task; "
    "integration/engine/test_leases.py kills one and freezes its task executor",
    "lease.before-killing": "a watchdog or driver is about to kill processes that end with it",
    "savepoints.before-record": "nothing has been done yet, as if no savepoint had been requested",
    "replacements.before-removing-record": "the next replacement removes the record",
    "replacements.before-removing-content": "no record points to the content any more",
}


@pytest.mark.parametrize("beginning", sorted(NAMED))
def test_each_named_test_mentions_its_failpoints(beginning: str) -> None:
    text = (TESTS / NAMED[beginning]).read_text()
    assert GROUPS.get(beginning, beginning) in text
    assert any(name.startswith(beginning) for name in ALL)


def test_every_failpoint_is_swept_or_exempt() -> None:
    named = {name for name in ALL if name.startswith(tuple(NAMED))}
    assert ALL - SWEPT - named - NOT_SWEPT.keys() == set()


def test_every_exempt_failpoint_exists_and_is_not_swept() -> None:
    assert NOT_SWEPT.keys() <= ALL - SWEPT
