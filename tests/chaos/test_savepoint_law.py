"""The law of savepoints: a job that starts from a savepoint loses nothing and repeats nothing.

The law is under attack by random sequences of steps, with real processes and real Spark. The steps
are input, deaths of runners, task executors and leaders, savepoints, stops, returns to earlier
savepoints, restarts, upgrades and rescales, with deaths in the middle of each. At the end the sinks
are compared with the input. `make test` runs one fixed sequence. TEST_SAVEPOINTS=long draws
TEST_SEQUENCES random sequences from TEST_SEQUENCE_SEED. A failure prints its sequence as JSON;
TEST_SEQUENCE='{…}' runs that sequence again.
"""

import contextlib
import itertools
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis.errors import Unsatisfiable

from chaos.real_cluster import RealCluster, real_cluster
from chaos.savepoint_scenario import SavepointScenario
from chaos.step_sequences import Action, Death, Step, StepSequence, Victim, step_sequences
from stoker.core.errors import StokerError

LONG = os.environ.get("TEST_SAVEPOINTS") == "long"
SEQUENCES = int(os.environ.get("TEST_SEQUENCES", "20"))
SEED = int(os.environ.get("TEST_SEQUENCE_SEED", "0")) or random.SystemRandom().randint(1, 10**6)
REPEATED = os.environ.get("TEST_SEQUENCE", "")

CONFIGURATION = """
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 1000
restart-strategy.fixed-delay.delay: 200 ms
execution.checkpointing.externalized-checkpoint-retention: RETAIN_ON_CANCELLATION
savepoint.stop.boundary-timeout: 30 s
"""

FIXED = [
    StepSequence(
        queries=("distinct", "copied"),
        partitions=2,
        steps=(
            Step(action=Action.SAVEPOINT, files=2, settled=True),
            Step(action=Action.KILL, death=Death(victim=Victim.TASK_EXECUTOR)),
            Step(action=Action.GO_BACK, death=Death(victim=Victim.RUNNER)),
            Step(
                action=Action.RESCALE,
                number=2,
                settled=True,
                death=Death(victim=Victim.LEADER, after=3.0),
            ),
            # Enough for Spark to compact the log of each sink.
            Step(action=Action.FEED, files=16),
            Step(action=Action.STOP, settled=True),
        ),
    ),
]
"""A short sequence with a death of each kind of process, a savepoint and a rescale."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(
        tmp_path_factory.mktemp("cluster"),
        masters=2,
        task_executors=2,
        zookeeper=1 if LONG else 0,
        configuration=CONFIGURATION,
    ) as cluster:
        yield cluster
        # A process that is still starting could not be stopped cleanly.
        cluster.restart_dead_processes()
        cluster.wait_until_ready()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A separate folder for each sequence."""
    root = tmp_path_factory.mktemp("sequences")
    return (root / str(number) for number in itertools.count())


def check_law(cluster: RealCluster, sequence: StepSequence, root: Path) -> None:
    began = time.monotonic()
    print(f"\n{sequence.text}")
    scenario = SavepointScenario(cluster, sequence, root)
    try:
        scenario.run()
    except BaseException:
        print(f"files: {root} and {cluster.directory}")
        print(f"to repeat it: TEST_SAVEPOINTS=long TEST_SEQUENCE='{sequence.text}'")
        raise
    finally:
        scenario.end()
        print(f"{time.monotonic() - began:.0f} s in all")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "sequence",
    [StepSequence.from_text(REPEATED)] if REPEATED else FIXED,
    ids=lambda sequence: "-".join(sequence.queries),
)
def test_a_fixed_sequence_loses_and_repeats_nothing(
    cluster: RealCluster, folders: Iterator[Path], sequence: StepSequence
) -> None:
    check_law(cluster, sequence, next(folders))


@pytest.mark.skipif(not LONG or bool(REPEATED), reason="minutes: TEST_SAVEPOINTS=long")
@pytest.mark.timeout(7200)
def test_random_sequences_lose_and_repeat_nothing(
    cluster: RealCluster, folders: Iterator[Path]
) -> None:
    print(f"TEST_SEQUENCE_SEED={SEED}")
    drawn: list[tuple[Step, ...]] = []
    failures: list[BaseException] = []

    # A sequence takes a minute, so a failing one is reported at once, without replay or shrinking.
    @seed(SEED)
    @settings(
        max_examples=SEQUENCES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(sequence=step_sequences())
    def law(sequence: StepSequence) -> None:
        assume(not failures and sequence.steps not in drawn)
        drawn.append(sequence.steps)
        try:
            check_law(cluster, sequence, next(folders))
        except (AssertionError, StokerError, OSError) as failure:
            failures.append(failure)

    with contextlib.suppress(Unsatisfiable):
        law()
    if failures:
        raise failures[0]
