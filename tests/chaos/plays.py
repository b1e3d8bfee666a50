"""Plays: random sequences of events in the life of a streaming job, as values with a text form."""

from enum import StrEnum

import msgspec
from hypothesis import strategies as st


class Victim(StrEnum):
    RUNNER = "runner"
    TASK_EXECUTOR = "task-executor"
    LEADER = "leader"


class Act(StrEnum):
    FEED = "feed"
    """Input comes."""
    KILL = "kill"
    """Somebody dies, and nothing else is under way."""
    SAVEPOINT = "savepoint"
    """One is taken while the job runs."""
    STOP = "stop"
    """With a savepoint, from which another job goes on."""
    GO_BACK = "go-back"
    """The job is cancelled, and another one goes on from a savepoint that was taken before."""
    RESTART = "restart"
    """The job is cancelled, and another one goes on from its last checkpoint."""
    UPGRADE = "upgrade"
    """By the same queries, as one operation."""
    RESCALE = "rescale"
    """As one operation."""


class Death(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    victim: Victim
    after: float = 0.0
    """Seconds from the beginning of what it disturbs."""


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    act: Act
    death: Death | None = None
    """Of an act that a death comes into, or that is one."""
    settled: bool = False
    """Begun when the cluster is whole and the job goes on; then it must succeed without a death."""
    files: int = 1
    """Of input: alone, or before the act."""
    number: int = 0
    """Which savepoint to go back to, or how many partitions."""


class Play(msgspec.Struct, frozen=True, kw_only=True):
    queries: tuple[str, ...]
    partitions: int
    steps: tuple[Step, ...]

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def of(cls, text: str) -> "Play":
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
    Act.SAVEPOINT: 1.0,
    Act.STOP: 2.0,
    Act.GO_BACK: 1.0,
    Act.RESTART: 1.0,
    Act.UPGRADE: 6.0,
    Act.RESCALE: 15.0,
}
"""About how long an operation takes; a death that comes later than its end comes then."""

feeds = st.builds(Step, act=st.just(Act.FEED), files=st.integers(1, 16))
kills = st.builds(
    Step, act=st.just(Act.KILL), death=st.builds(Death, victim=st.sampled_from(Victim))
)


@st.composite
def operations(draw: st.DrawFn) -> Step:
    act = draw(st.sampled_from(tuple(SECONDS)))
    moments = st.integers(0, 100).map(lambda hundredth: round(SECONDS[act] * hundredth / 100, 2))
    deaths = st.builds(Death, victim=st.sampled_from(Victim), after=moments)
    return Step(
        act=act,
        death=draw(deaths | st.none()),
        settled=draw(st.booleans()),
        files=draw(st.integers(0, 3)),
        number=draw(st.integers(0, 3)),
    )


def _sort(step: Step) -> tuple[Act, Victim | None]:
    """Merge repetitions: a play is too expensive to do the same thing again and again."""
    return step.act, None if step.death is None else step.death.victim


@st.composite
def plays(draw: st.DrawFn, *, shortest: int = 4, longest: int = 8) -> Play:
    """Each play takes a savepoint early, so that there is one to return to."""
    happenings = st.one_of(operations(), operations(), operations(), kills, feeds)
    return Play(
        queries=draw(st.sampled_from(QUERIES)),
        partitions=draw(st.integers(1, 3)),
        steps=(
            Step(act=Act.SAVEPOINT, files=2, settled=draw(st.booleans())),
            *draw(st.lists(happenings, min_size=shortest, max_size=longest, unique_by=_sort)),
        ),
    )
