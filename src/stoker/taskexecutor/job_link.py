"""The link from a task executor to the master of one job.

The link finds the master, offers slots to it, reports states and outcomes, and renews leases. Any
answer may be lost, and the master may be replaced at any moment by one that knows less. Reports are
therefore level-triggered: the link compares the present state with the state that it last reported
and sends the difference, so that a new master or a lost answer needs no case of its own.

A lease counts from the moment at which the request for it was sent, never from the answer. The
job master counts from when it received the request, so its deadline is always the later one.
"""

import asyncio
import logging
from dataclasses import dataclass, field

from stoker.aio.latest import Latest
from stoker.aio.log_context import bind_log_fields, log_fields
from stoker.aio.scope import TaskScope
from stoker.core.errors import FencingTokenMismatch, StokerError
from stoker.core.failpoints import failpoint
from stoker.core.ids import AttemptId, InstanceId, JobId, ResourceId
from stoker.core.results import AttemptOutcome
from stoker.core.states import ExecutionState
from stoker.core.values import FencingToken
from stoker.gateways.jobmaster import (
    AttemptProgress,
    AttemptReport,
    JobMasterGateway,
    TaskExecutorIntroduction,
)
from stoker.gateways.leases import LeaseOptions
from stoker.gateways.resourcemanager import Declined
from stoker.ha.publication import LeaderAddress
from stoker.ha.retrieval import LeaderRetrieval
from stoker.metrics.registry import Counter
from stoker.rpc.service import RpcService
from stoker.taskexecutor.held_task import HeldTask
from stoker.taskexecutor.holdings import JobHoldings
from stoker.taskexecutor.options import TaskExecutorOptions

log = logging.getLogger(__name__)

RECONNECT_SECONDS = 0.5
REPORT_DELAY_SECONDS = {ExecutionState.INITIALIZING: 0.1, ExecutionState.RUNNING: 1.0}
"""A state is reported after this delay, because most batch tasks have left it by then."""
MIN_PAUSE_SECONDS = 0.001
RENEWALS_PER_LEASE = 4
"""Renewal requests within the time of one lease."""


@dataclass(frozen=True)
class ExecutorIdentity:
    resource_id: ResourceId
    instance: InstanceId
    address: str


@dataclass
class MasterHandshake:
    """Remembers the handshake with the leading process, where all masters of one epoch live."""

    epoch: int | None = None
    """Epoch of the last handshake; None before the first."""


@dataclass
class JobLink:
    job_id: JobId
    rpc: RpcService
    identity: ExecutorIdentity
    holdings: JobHoldings
    retrieval: LeaderRetrieval
    options: TaskExecutorOptions
    lease: LeaseOptions
    renewals: Counter
    """Counts renewals by what allowed them."""
    handshake: MasterHandshake = field(default_factory=MasterHandshake)
    """Shared by the links of all jobs."""
    token: FencingToken | None = None
    """The leadership whose commands are obeyed; None before the first."""
    leased_until: float = 0.0
    """Loop time until which attempts of the job may run here."""
    seen_attempts: set[AttemptId] = field(default_factory=set)
    """Attempts that were started or cancelled here; a late deployment must not start them again."""
    _changes: Latest[int] = field(default_factory=lambda: Latest(0))
    _progress_reported_at: float = 0.0
    _first_asked_at: dict[FencingToken, float] = field(default_factory=dict)
    """Loop time at which each master was first asked to register this task executor."""

    def wake(self) -> None:
        """Look for changes to report now."""
        self._changes.set(self._changes.value + 1)

    def check(self, token: FencingToken) -> None:
        """Refuse the command of anybody but the present master, as the coordinator names it.

        A higher epoch alone proves nothing, because anybody can claim one: the coordinator must
        name the master, or must have named it when this link asked it to register. Within one
        epoch only the present name counts, because two tokens of the same epoch have no order.
        """
        if token == self.token:
            return
        known = self.retrieval.leader
        is_named = known is not None and known.token == token
        is_later = self.token is None or token.epoch > self.token.epoch
        is_same_epoch = self.token is not None and token.epoch == self.token.epoch
        if (is_later and (is_named or token in self._first_asked_at)) or (
            is_same_epoch and is_named
        ):
            self.token = token
            return
        raise FencingTokenMismatch(
            f"job {self.job_id} is led by {self.token}, not by {token}",
            expected=str(self.token),
            given=str(token),
        )

    async def run(self) -> None:
        bind_log_fields(job=self.job_id)
        while True:
            leader = await self.retrieval.wait_for_leader()
            try:
                with log_fields(epoch=leader.token.epoch):
                    await self._serve(leader)
            except StokerError as error:
                log.info("connection to the job master failed: %s", error)
            # Idle slots wait for the next master until the slot timeout, busy ones without limit.
            self.holdings.reserve_again(self.job_id)
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _serve(self, leader: LeaderAddress) -> None:
        master = await self._connect(leader)
        asked_at = asyncio.get_running_loop().time()
        self._first_asked_at.setdefault(leader.token, asked_at)
        self.holdings.reserve_again(self.job_id)
        introduction = self._introduction()
        answer = await master.register_task_executor(introduction)
        if isinstance(answer, Declined):
            log.warning("the job master declined the registration: %s", answer.reason)
            if answer.final:
                self.holdings.abandon_job(self.job_id, answer.reason)
            return
        self.check(leader.token)
        self._extend_lease(asked_at)
        # Progress within the first interval is reported with the outcome, if that comes sooner.
        self._progress_reported_at = asked_at
        self.holdings.offer_answered(self.job_id, answer.accepted, introduction.offered)
        async with TaskScope(f"link to job {self.job_id}") as scope:
            scope.spawn("leases", self._renew_leases_periodically(master))
            while self.retrieval.leader == leader:
                seen = self._changes.value
                await self._offer(master)
                await self._report_changes(master, leader.token)
                await self._wait_for_change(seen)

    async def _connect(self, leader: LeaderAddress) -> JobMasterGateway:
        if self.handshake.epoch == leader.token.epoch:
            return self.rpc.reach(leader.address, JobMasterGateway, token=leader.token)
        master = await self.rpc.connect(leader.address, JobMasterGateway, token=leader.token)
        self.handshake.epoch = leader.token.epoch
        return master

    def _introduction(self) -> TaskExecutorIntroduction:
        return TaskExecutorIntroduction(
            job_id=self.job_id,
            resource_id=self.identity.resource_id,
            instance=self.identity.instance,
            address=self.identity.address,
            attempts=tuple(task.to_held_attempt() for task in self.holdings.tasks(self.job_id)),
            offered=self.holdings.reserved(self.job_id),
        )

    async def _wait_for_change(self, seen: int) -> None:
        pause = self.options.progress_interval.total_seconds()
        delays = [self._report_delay(task) for task in self.holdings.tasks(self.job_id)]
        pause = min([pause, *filter(None, delays)])
        try:
            async with asyncio.timeout(pause):
                await self._changes.wait_for_change(seen)
        except TimeoutError:
            return

    async def _offer(self, master: JobMasterGateway) -> None:
        offered = self.holdings.reserved(self.job_id)
        if offered:
            accepted = await master.offer_slots(self.identity.instance, offered)
            self.holdings.offer_answered(self.job_id, accepted, offered)

    async def _report_changes(self, master: JobMasterGateway, token: FencingToken) -> None:
        for task in list(self.holdings.tasks(self.job_id)):
            if task.outcome is not None:
                await self._report_end(master, token, task, task.outcome)
            elif not self._report_delay(task):
                await self._report_state(master, task)
        await self._report_progress(master)

    async def _report_end(
        self,
        master: JobMasterGateway,
        token: FencingToken,
        task: HeldTask,
        outcome: AttemptOutcome,
    ) -> None:
        failpoint("task.before-outcome-is-told")
        before = self._report(task) if task.state is not task.reported_state else None
        returned_slots = await master.attempt_ended(self.identity.instance, outcome, before)
        failpoint("task.after-outcome-is-acknowledged")
        self.holdings.outcome_acknowledged(task)
        if token == self.token:
            self.holdings.slots_returned(self.job_id, returned_slots)

    async def _report_state(self, master: JobMasterGateway, task: HeldTask) -> None:
        state = task.state
        if state is task.reported_state:
            return
        is_known = await master.attempt_changed(self._report(task))
        if not is_known and task.outcome is None:
            self.holdings.cancel(task.attempt, "its job master does not know it")
        task.reported_state = state

    def _report(self, task: HeldTask) -> AttemptReport:
        return AttemptReport(
            instance=self.identity.instance,
            attempt=task.attempt,
            state=task.state,
            at=task.state_at,
        )

    def _report_delay(self, task: HeldTask) -> float:
        """Seconds for which the state is not reported yet, because it will likely change soon."""
        if task.outcome is not None or task.state is task.reported_state:
            return 0.0
        if task.state is ExecutionState.RUNNING and task.streaming:
            return 0.0
        age = asyncio.get_running_loop().time() - task.state_since
        left = REPORT_DELAY_SECONDS.get(task.state, 0.0) - age
        # A remainder that comes from rounding counts as none: sleeping for it would not help.
        return left if left > MIN_PAUSE_SECONDS else 0.0

    async def _report_progress(self, master: JobMasterGateway) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._progress_reported_at < self.options.progress_interval.total_seconds():
            return
        changed = [
            task
            for task in self.holdings.tasks(self.job_id)
            if task.outcome is None and task.progress != task.reported_progress
        ]
        if not changed:
            return
        self._progress_reported_at = now
        reports = [(task, task.progress) for task in changed]
        await master.attempts_progressed(
            self.identity.instance,
            tuple(AttemptProgress(attempt=task.attempt, progress=seen) for task, seen in reports),
        )
        for task, seen in reports:
            task.reported_progress = seen

    async def _renew_leases_periodically(self, master: JobMasterGateway) -> None:
        """Renew also while nothing runs, because an attempt starts under the present lease."""
        pause = self.lease.duration.total_seconds() / RENEWALS_PER_LEASE
        if all(task.lease_until >= self.leased_until for task in self._leased_tasks()):
            # The registration has just started a lease, and every attempt here has it.
            await asyncio.sleep(pause)
        while True:
            await self._renew(master, self._leased_tasks())
            await asyncio.sleep(pause)

    def _leased_tasks(self) -> list[HeldTask]:
        return [task for task in self.holdings.tasks(self.job_id) if task.outcome is None]

    async def _renew(self, master: JobMasterGateway, tasks: list[HeldTask]) -> None:
        asked_at = asyncio.get_running_loop().time()
        asked = tuple(task.attempt for task in tasks)
        renewed = await master.renew_leases(self.identity.instance, asked)
        self._extend_lease(asked_at)
        self.renewals.increment("job_master")
        for task in tasks:
            if task.attempt in renewed:
                task.renew_lease(self.leased_until)

    def lease_under(self, token: FencingToken) -> float:
        """End of the lease for an attempt that this master starts.

        The command may overtake the answer to the registration. The lease then counts from the
        first registration request, because the master has received that one or a later one. All
        first requests are remembered: a link lives as long as any slot that it has offered, and
        no allocation is made twice.
        """
        if (asked_at := self._first_asked_at.get(token)) is not None:
            self._extend_lease(asked_at)
        return self.leased_until

    def renew_leases_from(self, asked_at: float) -> None:
        """Renew all leases of the job on the word of the coordinator or of the masters."""
        self._extend_lease(asked_at)
        for task in self.holdings.tasks(self.job_id):
            task.renew_lease(self.leased_until)

    def _extend_lease(self, asked_at: float) -> None:
        until = asked_at + self.lease.duration.total_seconds()
        self.leased_until = max(self.leased_until, until)
