"""How submissions and requests for the job list slow each other down.

There are two measurements, because one figure does not answer both questions:

- Jobs are submitted as fast as the master accepts them. The master is then busy all the time, so
  that any processor time that the lists take is lost to the jobs. The aim is the rate that a
  master must reach without lists.
- Jobs are submitted at a rate that leaves the master idle time. The lists must then not be
  noticeable: every job is accepted, and as soon as without lists.

On a small machine sending the bytes alone costs time, whichever process sends them. Each
measurement is therefore made in turn without list requests, with list requests to a server that
does nothing else (the reference), and with list requests to the master. Each of the three goes
first equally often. The submitted jobs are cancelled after each round, so that no round begins with
waiting jobs.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

from bench.job_cancellation import cancel_jobs
from bench.load_generator import (
    ListRequests,
    LoadResult,
    percentile,
    prepared_load,
    sustained_load,
)
from bench.measure import Sample, Verdict, processor_seconds, rounds
from bench.raw_submissions import NAME, OfferedJobs, SubmissionResult, prepared_submissions
from bench.static_list_server import static_list_server

JOBS = int(os.environ.get("BENCH_SUBMISSIONS", "300"))
ROUNDS = rounds(6)
OFFERED_SECONDS = 4
IDLE_SECONDS = 2
HEAD_START_SECONDS = 0.5
"""How long lists are requested before the first job is submitted."""
AIM_P99 = 200.0
AIM_ACCEPTED_SHARE = 0.99
"""Share of the offered rate; below 1, as the last response follows the last request."""
AIM_SLOWDOWN = 1.1
"""Ratio of median latencies; a smaller ratio cannot be distinguished from noise between rounds."""


@dataclass(frozen=True)
class Master:
    url: str
    pid: int

    @property
    def processor_seconds(self) -> float:
        return processor_seconds(self.pid)


@dataclass
class Rounds:
    """Results of all rounds of one kind: without lists, or with lists from one of the servers."""

    name: str
    rates: list[float] = field(default_factory=list)
    latencies: list[tuple[float, ...]] = field(default_factory=list)
    """Latencies of the submissions, by round."""
    jobs: int = 0
    list_p99s: list[float] = field(default_factory=list)
    lists: int = 0
    master: float = 0.0
    """Processor seconds of the master, less those that it uses without requests."""
    submitter: float = 0.0
    list_client: float = 0.0

    def add_submissions(self, jobs: int, result: SubmissionResult) -> None:
        self.rates.append(result.per_second)
        self.submitter += result.processor_seconds
        self.jobs += jobs

    def add_offered_jobs(self, offered: OfferedJobs, result: LoadResult) -> None:
        self.rates.append(offered.jobs / max(result.seconds, offered.jobs / offered.per_second))
        self.latencies.append(result.milliseconds)
        self.submitter += result.processor_seconds
        self.jobs += offered.jobs

    def add_lists(self, result: LoadResult) -> None:
        self.list_p99s.append(result.percentile(0.99))
        self.lists += len(result.milliseconds)
        self.list_client += result.processor_seconds

    @property
    def processor_times(self) -> str:
        return (
            f"processor time: master {self.master:.1f} s, submitter {self.submitter:.1f} s, "
            f"list client {self.list_client:.1f} s"
        )

    @property
    def medians(self) -> list[float]:
        return [median(latencies) for latencies in self.latencies]

    @property
    def all_latencies(self) -> list[float]:
        return [each for latencies in self.latencies for each in latencies]


@dataclass(frozen=True)
class MixedLoad:
    name: str
    master: Master
    lists: ListRequests

    def measure_maximum_rate(self, aim: float) -> list[Verdict]:
        """Submit jobs as fast as the master accepts them."""
        with prepared_submissions(self.master.url, max(1, JOBS // 3)) as warm_up:
            warm_up()
        alone, static, mixed = self._alternate(None)
        for kind in (alone, static, mixed):
            print(Sample(f"{self.name}: accepted, {kind.name}", tuple(kind.rates), "jobs/s"))
        print(
            f"  share of the rate with a static server {_ratio(static.rates, mixed.rates):.2f}, "
            f"of the rate without lists {_ratio(alone.rates, mixed.rates):.2f}",
            flush=True,
        )
        self._print_lists(mixed, alone)
        return [
            Verdict(f"submissions, {self.name}", median(mixed.rates), aim, "/s", at_least=True),
        ]

    def measure_offered_rate(self, per_second: float) -> list[Verdict]:
        """Submit jobs at a steady rate, whether or not earlier ones have been accepted."""
        alone, static, mixed = self._alternate(per_second)
        offered = f"{per_second:g} jobs a second offered"
        for kind in (alone, static, mixed):
            print(
                f"{self.name}: {offered}, {kind.name}: accepted {median(kind.rates):.1f}/s, "
                f"after p50 {percentile(kind.all_latencies, 0.5):.1f} ms, "
                f"p99 {percentile(kind.all_latencies, 0.99):.1f} ms "
                f"(n={len(kind.all_latencies)})",
                flush=True,
            )
        share = median(rate / per_second for rate in mixed.rates)
        slowdown = _ratio(static.medians, mixed.medians)
        print(
            f"  median latency {slowdown:.2f} times that with a static server, "
            f"{_ratio(alone.medians, mixed.medians):.2f} times that without lists",
            flush=True,
        )
        self._print_lists(mixed, alone)
        p99 = median(mixed.list_p99s)
        return [
            Verdict(
                f"share accepted of {offered}, {self.name}",
                share,
                AIM_ACCEPTED_SHARE,
                "",
                at_least=True,
            ),
            Verdict(
                f"median latency with lists, {offered}, {self.name}", slowdown, AIM_SLOWDOWN, "x"
            ),
            Verdict(f"lists with {offered}, {self.name}, p99", p99, AIM_P99, "ms"),
        ]

    def _print_lists(self, mixed: Rounds, alone: Rounds) -> None:
        p99s = Sample(f"{self.name}: p99 of the lists during submissions", tuple(mixed.list_p99s))
        more = mixed.master / mixed.jobs - alone.master / alone.jobs
        print(
            f"{p99s}\n  without lists: {alone.processor_times}\n"
            f"  with lists: {mixed.processor_times}\n"
            f"  processor time of the master: {alone.master / alone.jobs * 1000:.1f} ms a job, "
            f"{more * mixed.jobs / mixed.lists * 1000:.1f} ms a list",
            flush=True,
        )

    def _alternate(self, per_second: float | None) -> tuple[Rounds, Rounds, Rounds]:
        rate = f"{self.lists.per_second:g} lists/s"
        alone, static, mixed = kinds = (
            Rounds("without lists"),
            Rounds(f"{rate} from a static server"),
            Rounds(f"{rate} from the master"),
        )
        with static_list_server(self.lists) as static_lists:
            loads = {alone.name: None, static.name: static_lists, mixed.name: self.lists}
            for number in range(ROUNDS):
                for place in range(3):
                    kind = kinds[(number + place) % 3]
                    self._run_round(kind, per_second, loads[kind.name])
        return kinds

    def _run_round(
        self, kind: Rounds, per_second: float | None, lists: ListRequests | None
    ) -> None:
        """The submitter starts before the measurement, since its start takes processor time."""
        with self._prepared_submitter(kind, per_second) as submit:
            idle = self._idle_share()
            before, begin = self.master.processor_seconds, time.perf_counter()
            if lists is not None:
                with sustained_load(lists) as results:
                    time.sleep(HEAD_START_SECONDS)
                    submit()
                kind.add_lists(results[0])
            else:
                submit()
            seconds = time.perf_counter() - begin
            kind.master += self.master.processor_seconds - before - idle * seconds
        cancel_jobs(self.master.url, NAME)

    @contextmanager
    def _prepared_submitter(
        self, kind: Rounds, per_second: float | None
    ) -> Iterator[Callable[[], None]]:
        if per_second is None:
            with prepared_submissions(self.master.url, JOBS) as submit:
                yield lambda: kind.add_submissions(JOBS, submit())
            return
        offered = OfferedJobs(self.master.url, per_second, int(per_second * OFFERED_SECONDS))
        with prepared_load(offered) as send:
            yield lambda: kind.add_offered_jobs(offered, send())

    def _idle_share(self) -> float:
        """Share of a processor that the master uses without requests, for its existing jobs."""
        before = self.master.processor_seconds
        time.sleep(IDLE_SECONDS)
        return (self.master.processor_seconds - before) / IDLE_SECONDS


def _ratio(reference: list[float], ours: list[float]) -> float:
    """Median ratio of paired rounds, so that a temporary slowdown of the machine affects both."""
    return median(b / a for a, b in zip(reference, ours, strict=True))
