"""Random sequences of steps in the life of a streaming job, as values with a text form."""

from enum import StrEnum

import msgspec
from hypothesis import strategies as st


class Victim(StrEnum):
    RUNNER = "runner"
    TASK_EXECUTOR = "task-executor"
    LEADER = "leader"


class Action(StrEnum):
    FEED = "feed"
    """Input is written."""
    KILL = "kill"
    """A process is killed while no operation is under way."""
    SAVEPOINT = "savepoint"
    """A savepoint is taken while the job runs."""
    STOP = "stop"
    """The job is stopped with a savepoint, and another job starts from it."""
    GO_BACK = "go-back"
    """The job is cancelled, and another job starts from an earlier savepoint."""
    RESTART = "restart"
    """The job is cancelled, and another job starts from its last checkpoint."""
    UPGRADE = "upgrade"
    """`stoker upgrade` to a version with the same queries."""
    RESCALE = "rescale"
    """`stoker rescale` to another number of partitions."""


class Death(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    victim: Victim
    after: float = 0.0
    """Seconds from the beginning of the operation that the death disturbs."""


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    action: Action
    death: Death | None = None
    """The death during the operation; for `KILL`, the death that is the step itself."""
    settled: bool = False
    """Whether the step waits first until dead processes are restarted and the job makes progress.

    A settled step without a death must succeed.
    """
    files: int = 1
    """How many input files are written before the action; for `FEED`, the action itself."""
    number: int = 0
    """`GO_BACK`: which savepoint. `RESCALE`: the number of partitions, less one."""


class StepSequence(msgspec.Struct, frozen=True, kw_only=True):
    queries: tuple[str, ...]
    partitions: int
    steps: tuple[Step, ...]

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_text(cls, text: str) -> "StepSequence":
        return msgspec.json.decode(text, type=cls)


QUERIES = (
    ("distinct",),
    ("windows",),
    ("distinct", "copied"),
    ("windows", "copied"),
    ("joined",),
    ("distinct", "windows"),
    ("copied",),
)
SECONDS = {
    Action.SAVEPOINT: 1.0,
    Action.STOP: 2.0,
    Action.GO_BACK: 1.0,
    Action.RESTART: 1.0,
    Action.UPGRADE: 6.0,
    Action.RESCALE: 15.0,
}
"""About how long each operation takes. A death that would come after its end comes at its end."""

feeds = st.builds(Step, action=st.just(Action.FEED), files=st.integers(1, 16))
kills = st.builds(
    Step, action=st.just(Action.KILL), death=st.builds(Death, victim=st.sampled_from(Victim))
)


@st.composite
def operations(draw: st.DrawFn) -> Step:
    action = draw(st.sampled_from(tuple(SECONDS)))
    moments = st.integers(0, 100).map(lambda hundredth: round(SECONDS[action] * hundredth / 100, 2))
    deaths = st.builds(Death, victim=st.sampled_from(Victim), after=moments)
    return Step(
        action=action,
        death=draw(deaths | st.none()),
        settled=draw(st.booleans()),
        files=draw(st.integers(0, 3)),
        number=draw(st.integers(0, 3)),
    )


def _kind(step: Step) -> tuple[Action, Victim | None]:
    """Steps of the same kind are not repeated, because a sequence takes minutes to run."""
    return step.action, None if step.death is None else step.death.victim


@st.composite
def step_sequences(draw: st.DrawFn, *, min_steps: int = 4, max_steps: int = 8) -> StepSequence:
    """Each sequence begins with a savepoint, so that later steps can return to it."""
    steps = st.one_of(operations(), operations(), operations(), kills, feeds)
    return StepSequence(
        queries=draw(st.sampled_from(QUERIES)),
        partitions=draw(st.integers(1, 3)),
        steps=(
            Step(action=Action.SAVEPOINT, files=2, settled=draw(st.booleans())),
            *draw(st.lists(steps, min_size=min_steps, max_size=max_steps, unique_by=_kind)),
        ),
    )
