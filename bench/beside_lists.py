"""What becomes of those who hand in jobs while others ask for the list of jobs, and of those.

Two questions, since one answer does not hold for both:

- Jobs as fast as the master takes them. It is busy all the time then, so whatever the lists take of
  two processors, jobs do not get: the share of the rate says how much that is. There must be as
  many beside the lists as a master is to take by itself.
- Jobs at a rate that leaves the master room. Then nobody may notice the lists: all that is offered
  is accepted, and as soon as without them.

On a small machine the bytes alone are felt, whoever sends them. So each is measured in turn with
nobody asking, with the same lists asked of a server that does nothing else (the reference), and
with the lists asked of the master; each of the three goes first as often. What was handed in is
cancelled after each round, so that the next one finds as many jobs waiting: none.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

from bench.bare_lists import bare_server_of
from bench.measure import Sample, Verdict, processor_seconds, rounds
from bench.raw_submissions import NAME, Accepted, Offer, ready_to_hand_in
from bench.steady_requests import Answered, Question, asking, percentile, ready_to_ask
from bench.waiting_jobs import cancel_jobs

JOBS = int(os.environ.get("STOKER_BENCH_SUBMISSIONS", "300"))
ROUNDS = rounds(6)
OFFERED_SECONDS = 4
IDLE_SECONDS = 2
UNDER_WAY_SECONDS = 0.5
"""Lists are asked for before the first job is handed in."""
AIM_P99 = 200.0
AIM_KEPT = 0.99
"""Of a rate that is offered: the last answer comes a little after the last request."""
AIM_SLOWER = 1.1
"""Of the median time to acceptance: less is not told apart from one round and the next."""


@dataclass(frozen=True)
class Master:
    url: str
    pid: int

    @property
    def processor_seconds(self) -> float:
        return processor_seconds(self.pid)


@dataclass
class Rounds:
    """Of jobs that were handed in, with the list being asked for or not."""

    name: str
    rates: list[float] = field(default_factory=list)
    waits: list[tuple[float, ...]] = field(default_factory=list)
    jobs: int = 0
    late: list[float] = field(default_factory=list)
    lists: int = 0
    master: float = 0.0
    """What it used of the processors, without what it uses when nobody asks."""
    submitter: float = 0.0
    asker: float = 0.0

    def note_jobs(self, jobs: int, accepted: Accepted) -> None:
        self.rates.append(accepted.a_second)
        self.submitter += accepted.processor_seconds
        self.jobs += jobs

    def note_offer(self, offer: Offer, answered: Answered) -> None:
        self.rates.append(offer.jobs / max(answered.seconds, offer.jobs / offer.a_second))
        self.waits.append(answered.milliseconds)
        self.submitter += answered.processor_seconds
        self.jobs += offer.jobs

    def note_lists(self, seen: Answered) -> None:
        self.late.append(seen.percentile(0.99))
        self.lists += len(seen.milliseconds)
        self.asker += seen.processor_seconds

    @property
    def processors(self) -> str:
        return (
            f"processor time: master {self.master:.1f} s, who hands in {self.submitter:.1f} s, "
            f"who asks {self.asker:.1f} s"
        )

    @property
    def medians(self) -> list[float]:
        return [median(waits) for waits in self.waits]

    @property
    def all_waits(self) -> list[float]:
        return [each for waits in self.waits for each in waits]


@dataclass(frozen=True)
class BesideLists:
    name: str
    master: Master
    question: Question

    def at_most(self, aim: float) -> list[Verdict]:
        """As many jobs as the master takes."""
        with ready_to_hand_in(self.master.url, max(1, JOBS // 3)) as warm_up:
            warm_up()
        alone, bare, asked = self._in_turn(None)
        for kind in (alone, bare, asked):
            print(Sample(f"{self.name}: accepted, {kind.name}", tuple(kind.rates), "jobs/s"))
        print(
            f"  share of the rate beside a bare server {_compared(bare.rates, asked.rates):.2f}, "
            f"of the rate when nobody asks {_compared(alone.rates, asked.rates):.2f}",
            flush=True,
        )
        self._show_lists(asked, alone)
        return [
            Verdict(f"submissions, {self.name}", median(asked.rates), aim, "/s", at_least=True),
        ]

    def offered(self, a_second: float) -> list[Verdict]:
        """Jobs at a steady rate, whether they are accepted or not."""
        alone, bare, asked = self._in_turn(a_second)
        beside = f"{a_second:g} jobs a second offered"
        for kind in (alone, bare, asked):
            print(
                f"{self.name}: {beside}, {kind.name}: accepted {median(kind.rates):.1f}/s, "
                f"after p50 {percentile(kind.all_waits, 0.5):.1f} ms, "
                f"p99 {percentile(kind.all_waits, 0.99):.1f} ms (n={len(kind.all_waits)})",
                flush=True,
            )
        kept = median(rate / a_second for rate in asked.rates)
        slower = _compared(bare.medians, asked.medians)
        print(
            f"  median wait {slower:.2f} times that beside a bare server, "
            f"{_compared(alone.medians, asked.medians):.2f} times that when nobody asks",
            flush=True,
        )
        self._show_lists(asked, alone)
        return [
            Verdict(f"share kept of {beside}, {self.name}", kept, AIM_KEPT, "", at_least=True),
            Verdict(f"median wait beside lists, {beside}, {self.name}", slower, AIM_SLOWER, "x"),
            Verdict(f"lists {beside}, {self.name}, p99", median(asked.late), AIM_P99, "ms"),
        ]

    def _show_lists(self, asked: Rounds, alone: Rounds) -> None:
        answers = Sample(f"{self.name}: p99 of the lists meanwhile", tuple(asked.late))
        more = asked.master / asked.jobs - alone.master / alone.jobs
        print(
            f"{answers}\n  nobody asks: {alone.processors}\n  lists: {asked.processors}\n"
            f"  processor time of the master: {alone.master / alone.jobs * 1000:.1f} ms a job, "
            f"{more * asked.jobs / asked.lists * 1000:.1f} ms a list",
            flush=True,
        )

    def _in_turn(self, a_second: float | None) -> tuple[Rounds, Rounds, Rounds]:
        lists = f"{self.question.a_second:g} lists/s"
        alone, bare, asked = kinds = (
            Rounds("nobody asks"),
            Rounds(f"{lists} of a bare server"),
            Rounds(f"{lists} of the master"),
        )
        with bare_server_of(self.question) as elsewhere:
            questions = {alone.name: None, bare.name: elsewhere, asked.name: self.question}
            for number in range(ROUNDS):
                for place in range(3):
                    kind = kinds[(number + place) % 3]
                    self._round(kind, a_second, questions[kind.name])
        return kinds

    def _round(self, kind: Rounds, a_second: float | None, question: Question | None) -> None:
        """Who hands in is ready before anybody asks: to load takes a processor for a while."""
        with self._ready(kind, a_second) as hand_in:
            idle = self._idle_share()
            before, begin = self.master.processor_seconds, time.perf_counter()
            if question is not None:
                with asking(question) as found:
                    time.sleep(UNDER_WAY_SECONDS)
                    hand_in()
                kind.note_lists(found[0])
            else:
                hand_in()
            seconds = time.perf_counter() - begin
            kind.master += self.master.processor_seconds - before - idle * seconds
        cancel_jobs(self.master.url, NAME)

    @contextmanager
    def _ready(self, kind: Rounds, a_second: float | None) -> Iterator[Callable[[], None]]:
        if a_second is None:
            with ready_to_hand_in(self.master.url, JOBS) as hand_in:
                yield lambda: kind.note_jobs(JOBS, hand_in())
            return
        offer = Offer(self.master.url, a_second, int(a_second * OFFERED_SECONDS))
        with ready_to_ask(offer) as ask:
            yield lambda: kind.note_offer(offer, ask())

    def _idle_share(self) -> float:
        """What jobs that run and wait cost without anybody asking: it counts for nobody."""
        before = self.master.processor_seconds
        time.sleep(IDLE_SECONDS)
        return (self.master.processor_seconds - before) / IDLE_SECONDS


def _compared(reference: list[float], ours: list[float]) -> float:
    """Round by round, so that what slows the machine down for a while counts for both."""
    return median(b / a for a, b in zip(reference, ours, strict=True))
