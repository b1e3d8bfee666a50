"""Spare runners: which one a task gets, and which ones are not used."""

import asyncio
import socket
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import StokerError, Unavailable
from stoker.core.ids import Ids
from stoker.engine.connect.launcher import RunnerLauncher, ServerLost, WarmRunner
from stoker.engine.connect.pool import RunnerPool
from stoker.engine.connect.watchdog_client import WatchdogClient
from stoker.engine.contract import EngineState
from stoker.engine.options import EngineOptions
from stoker.engine.protocol import Leave, NotReady, Prepare, Ready, SessionEnded, WarmUp
from stoker.osproc.exit import ProcessExit
from stoker.testing.virtual_time import run_virtual

KILLED = ProcessExit(code=-9)
OWNER = "ana"


@dataclass(eq=False)
class Server:
    died: "asyncio.Future[ProcessExit]" = field(default_factory=asyncio.Future)
    ui: str = ""
    pid: int = 1
    watchdog: WatchdogClient = field(
        default_factory=lambda: WatchdogClient(cast(Any, None), Path("closed"))
    )

    def url(self, session: str) -> str:
        return f"sc://127.0.0.1:1/;session_id={session}"


class SlowToDie:
    """A process that still looks alive during the second that its kill takes."""

    def __init__(self) -> None:
        self.is_alive = True
        self.is_doomed = False
        self.exited: asyncio.Future[ProcessExit] = asyncio.Future()

    async def kill(self) -> ProcessExit:
        self.is_doomed = True
        await asyncio.sleep(1)
        self.is_alive = False
        return KILLED


class Servers:
    def __init__(self, current: Server) -> None:
        self.current = current

    async def get(self) -> Server:
        return self.current

    @property
    def state(self) -> EngineState:
        return EngineState.READY

    def is_released(self, _server: Server) -> bool:
        return False


class Prepared(SlowToDie):
    """A runner that opens its session at once."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[object] = []

    async def send(self, message: object) -> None:
        self.received.append(message)

    async def receive(self) -> Ready:
        return Ready(spark_version="4.3.0")


class Leaving(Prepared):
    """A runner that answers a `Leave` with the given message, or with None at its end."""

    def __init__(self, answer: SessionEnded | None, *, after: float = 0) -> None:
        super().__init__()
        self._answer = answer
        self._after = after

    async def receive(self) -> Any:
        await asyncio.sleep(self._after)
        return self._answer


def test_a_runner_that_leaves_closes_its_session_or_the_session_counts_as_open() -> None:
    async def leave(process: Leaving, server: Server) -> SessionEnded | None:
        runner = replace(warm_runner(server), process=cast(Any, process))
        answer = await runner.leave()
        assert isinstance(process.received[-1], Leave)
        assert process.is_doomed
        return answer

    async def main() -> None:
        ended = SessionEnded(session_id="session")
        assert await leave(Leaving(ended, after=1), Server()) == ended
        assert await leave(Leaving(None), Server()) is None
        assert await leave(Leaving(ended, after=3600), Server()) is None
        server = Server()
        asyncio.get_running_loop().call_later(1, server.died.set_result, KILLED)
        assert await leave(Leaving(ended, after=3600), server) is None
        dead = Leaving(ended)
        dead.is_alive = False
        assert await replace(warm_runner(Server()), process=cast(Any, dead)).leave() is None
        assert dead.received == []

    run_virtual(main)


class Zygote:
    def __init__(self, *, dies: bool = False) -> None:
        self.died: asyncio.Future[ProcessExit] = asyncio.Future()
        self._dies = dies

    async def fork(self) -> Prepared:
        if self._dies:
            asyncio.get_running_loop().call_later(0.5, self.died.set_result, KILLED)
            raise Unavailable("it does not answer")
        return Prepared()


class Zygotes:
    """Zygotes, of which the first one not known to be dead is in use."""

    def __init__(self, *zygotes: Zygote) -> None:
        self._zygotes = zygotes

    async def get(self) -> Zygote:
        return next(each for each in self._zygotes if not each.died.done())


def warm_runner(server: Server, *, tasks: int = 1) -> WarmRunner:
    return WarmRunner(
        process=cast(Any, Prepared()),
        server=cast(Any, server),
        session_id="session",
        spark_version="4.3.0",
        tasks=tasks,
    )


async def spare(server: Server, *, is_warm: bool = True) -> "asyncio.Task[WarmRunner]":
    async def ready() -> WarmRunner:
        return replace(warm_runner(server), process=cast(Any, SlowToDie()), is_warm=is_warm)

    task = asyncio.create_task(ready())
    await task
    return task


def test_with_one_task_per_runner_no_session_is_copied_from_a_template() -> None:
    async def main() -> None:
        launcher = RunnerLauncher(
            EngineOptions(runner_tasks=1),
            cast(Any, Servers(Server())),
            cast(Any, Zygotes(Zygote())),
            Ids(),
        )
        runner: Any = await launcher.launch(warm=True)
        (prepare,) = runner.process.received
        assert prepare.scheduler_pool
        assert prepare.first
        assert not prepare.template
        assert not prepare.is_template_new

    run_virtual(main())


def test_sessions_start_as_copies_of_one_template_per_scheduler_pool() -> None:
    async def main() -> None:
        server, following = Server(), Server()
        servers = Servers(server)
        launcher = RunnerLauncher(
            EngineOptions(), cast(Any, servers), cast(Any, Zygotes(Zygote())), Ids()
        )
        first, second = [await prepared(launcher.launch(warm=True)) for _ in range(2)]
        assert [first.first, second.first] == [True, False]
        assert first.is_template_new
        assert second.is_template_new
        assert first.template != second.template
        _end(first)
        await asyncio.sleep(0)
        third = await prepared(launcher.launch(warm=True))
        assert third.scheduler_pool == first.scheduler_pool
        assert third.template == first.template
        assert not third.is_template_new
        attached = await prepared(launcher.attach(cast(Any, server), "session of a dead runner"))
        assert not attached.template
        servers.current = following
        elsewhere = await prepared(launcher.launch(warm=True))
        assert elsewhere.is_template_new
        assert elsewhere.template not in (first.template, second.template)

    runners: list[Prepared] = []

    async def prepared(making: Any) -> Prepare:
        runner = await making
        runners.append(runner.process)
        (message,) = runner.process.received
        return cast(Prepare, message)

    def _end(prepare: Prepare) -> None:
        (runner,) = [each for each in runners if each.received == [prepare]]
        runner.exited.set_result(KILLED)

    run_virtual(main())


class FailingRunner(Prepared):
    """A runner that cannot open a session."""

    async def receive(self) -> Any:
        return NotReady(reason="no session")

    async def kill(self) -> ProcessExit:
        self.exited.set_result(KILLED)
        return KILLED


def test_a_template_is_created_again_after_its_runner_failed() -> None:
    class ZygoteWithOneFailure(Zygote):
        def __init__(self) -> None:
            super().__init__()
            self.children: list[Prepared] = []

        async def fork(self) -> Prepared:
            self.children.append(Prepared() if self.children else FailingRunner())
            return self.children[-1]

    async def main() -> None:
        zygote = ZygoteWithOneFailure()
        # The page of Spark answers, so the server lives.
        with socket.create_server(("127.0.0.1", 0)) as page:
            server = Server(ui=f"http://127.0.0.1:{page.getsockname()[1]}")
            launcher = RunnerLauncher(
                EngineOptions(), cast(Any, Servers(server)), cast(Any, Zygotes(zygote)), Ids()
            )
            failure = await launcher.launch(warm=True)
            assert isinstance(failure, Unavailable)
            assert not isinstance(failure, ServerLost)
            assert isinstance(await launcher.launch(warm=True), WarmRunner)
        (failed,), (made,) = [cast(list[Prepare], child.received) for child in zygote.children]
        assert made.template == failed.template
        assert made.is_template_new
        assert made.first

    run_virtual(main())


def test_a_spare_runner_that_is_being_killed_is_not_used() -> None:
    async def main() -> None:
        old, new = Server(), Server()
        pool = RunnerPool(EngineOptions(), cast(Any, Servers(new)), cast(Any, None), Ids())
        pool._spares = cast(Any, [await spare(old), await spare(new)])
        renewing = asyncio.create_task(pool.dismiss_stale_spares())
        await asyncio.sleep(0.5)
        taken = await pool.take(OWNER)
        assert not cast(Any, taken.process).is_doomed
        assert taken.server is cast(Any, new)
        await renewing

    run_virtual(main)


def test_spares_whose_server_died_while_the_pool_was_busy_are_killed() -> None:
    async def main() -> None:
        old = Server()
        servers = Servers(old)
        options = EngineOptions(warm_runners=2, replenish_delay=timedelta(seconds=10))
        pool = RunnerPool(options, cast(Any, servers), cast(Any, Zygotes(Zygote())), Ids())
        keeping = asyncio.create_task(pool.run())
        await asyncio.sleep(1)
        await pool.take(OWNER)
        await asyncio.sleep(1)
        (left,) = [cast(WarmRunner, spare.result()) for spare in pool._spares]
        old.died.set_result(KILLED)
        servers.current = Server()
        await asyncio.sleep(20)
        assert cast(Any, left.process).is_doomed
        fresh = [cast(WarmRunner, spare.result()) for spare in pool._spares]
        assert [runner.server for runner in fresh] == [servers.current] * 2
        keeping.cancel()
        await asyncio.wait([keeping])

    run_virtual(main)


def test_a_runner_starts_although_the_server_is_dying_and_refuses_its_session() -> None:
    class Mortal(Zygote):
        async def fork(self) -> Prepared:
            return Prepared() if dying.died.done() else FailingRunner()

    dying: Server

    async def main() -> None:
        nonlocal dying
        dying, successor = Server(), Server()
        servers = Servers(dying)

        def die() -> None:
            dying.died.set_result(KILLED)
            servers.current = successor

        asyncio.get_running_loop().call_later(1, die)
        pool = RunnerPool(EngineOptions(), cast(Any, servers), cast(Any, Zygotes(Mortal())), Ids())
        assert (await pool.take(OWNER)).server is cast(Any, successor)

    run_virtual(main)


def test_a_runner_starts_although_the_zygote_has_just_died() -> None:
    async def main() -> None:
        zygotes = Zygotes(Zygote(dies=True), Zygote())
        pool = RunnerPool(EngineOptions(), cast(Any, Servers(Server())), cast(Any, zygotes), Ids())
        assert isinstance((await pool.take(OWNER)).process, Prepared)

    run_virtual(main)


def test_no_task_gets_a_spare_runner_that_failed_in_the_background() -> None:
    async def main() -> None:
        zygotes = Zygotes(Zygote())
        pool = RunnerPool(EngineOptions(), cast(Any, Servers(Server())), cast(Any, zygotes), Ids())
        failed: asyncio.Future[StokerError] = asyncio.Future()
        failed.set_result(Unavailable("long ago"))
        pool._spares = cast(Any, [failed])
        assert isinstance((await pool.take(OWNER)).process, Prepared)

    run_virtual(main)


def test_a_runner_in_use_is_replaced_when_its_task_has_ended_or_takes_long() -> None:
    async def main() -> None:
        server = Server()
        options = EngineOptions(replenish_delay=timedelta(seconds=10))
        pool = RunnerPool(options, cast(Any, Servers(server)), cast(Any, None), Ids())
        pool._spares = cast(Any, [await spare(server), await spare(server)])
        loop = asyncio.get_running_loop()

        short = await pool.take(OWNER)
        loop.call_later(3, short.process.exited.set_result, ProcessExit(code=0))
        began = loop.time()
        await pool._wait_until_calm()
        assert 3 <= loop.time() - began < 4

        await pool.take(OWNER)
        began = loop.time()
        await pool._wait_until_calm()
        assert 10 <= loop.time() - began < 11

    run_virtual(main)


def test_runners_started_in_a_rush_are_warmed_up_after_it() -> None:
    async def main() -> None:
        options = EngineOptions(warm_runners=2, replenish_delay=timedelta(seconds=0))
        zygotes = Zygotes(Zygote())
        pool = RunnerPool(options, cast(Any, Servers(Server())), cast(Any, zygotes), Ids())
        keeping = asyncio.create_task(pool.run())
        await asyncio.sleep(0.5)
        first = [await pool.take(OWNER) for _ in range(2)]
        assert [runner.is_warm for runner in first] == [True, True]
        rush = [await pool.take(OWNER) for _ in range(3)]
        assert [runner.is_warm for runner in rush] == [False] * 3, (
            "there was no time to warm them up"
        )
        await asyncio.sleep(0.3)
        spares = [cast(WarmRunner, spare.result()) for spare in pool._spares]
        assert [spare.is_warm for spare in spares] == [False] * 2
        await asyncio.sleep(5)
        spares = [cast(WarmRunner, spare.result()) for spare in pool._spares]
        assert [spare.is_warm for spare in spares] == [True] * 2
        for spare in spares:
            prepare, warm_up = cast(Any, spare.process).received
            assert not prepare.warm
            assert isinstance(warm_up, WarmUp)
        keeping.cancel()
        await asyncio.wait([keeping])

    run_virtual(main)


def test_warm_spares_are_used_before_cold_ones_and_those_before_unready_ones() -> None:
    async def main() -> None:
        server = Server()
        pool = RunnerPool(EngineOptions(), cast(Any, Servers(server)), cast(Any, None), Ids())
        unready: asyncio.Future[WarmRunner] = asyncio.Future()
        cold, warm = await spare(server, is_warm=False), await spare(server)
        pool._spares = cast(Any, [unready, cold, warm])
        assert (await pool.take(OWNER)).process is warm.result().process
        assert (await pool.take(OWNER)).process is cold.result().process
        assert pool._spares == [cast(Any, unready)]

    run_virtual(main)


def test_the_warm_spare_with_the_most_tasks_is_used_first() -> None:
    async def main() -> None:
        server = Server()
        pool = pool_with(EngineOptions(warm_runners=3), server=server, spares=3)
        await asyncio.sleep(1)
        first, second = await pool.take(OWNER), await pool.take(OWNER)
        for runner in (first, second, await pool.take(OWNER)):
            pool.take_back(runner, with_session=True)
        again = await pool.take(OWNER)
        assert again.process is first.process, "the oldest of those with equally many tasks"
        pool.take_back(again, with_session=True)
        for tasks in (3, 4):
            kept = await pool.take(OWNER)
            assert kept.process is first.process
            assert kept.tasks == tasks
            pool.take_back(kept, with_session=True)

    run_virtual(main)


def test_only_the_first_runner_asks_for_the_version_of_spark() -> None:
    async def main() -> None:
        zygotes = Zygotes(Zygote())
        pool = RunnerPool(EngineOptions(), cast(Any, Servers(Server())), cast(Any, zygotes), Ids())
        runners = [await pool.take(OWNER) for _ in range(3)]
        asked = [cast(Any, runner.process).received[0].report_version for runner in runners]
        assert asked == [True, False, False]
        assert {runner.spark_version for runner in runners} == {"4.3.0"}

    run_virtual(main)


def pool_with(
    options: EngineOptions, *, server: Server, spares: int = 0, current: Server | None = None
) -> RunnerPool:
    servers = cast(Any, Servers(current or server))
    pool = RunnerPool(options, servers, cast(Any, Zygotes(Zygote())), Ids())
    pool._spares = cast(Any, [pool._start_preparing() for _ in range(spares)])
    return pool


def test_a_reusable_runner_opens_another_session_for_the_next_task() -> None:
    async def main() -> None:
        server = Server()
        pool = pool_with(EngineOptions(), server=server)
        runner = await pool.take(OWNER)
        assert pool.take_back(runner, with_session=False)
        again = await pool.take(OWNER)
        assert again.process is runner.process
        assert again.session_id != runner.session_id
        assert again.tasks == 2
        assert not again.is_warm
        first, second = cast(Any, again.process).received
        assert second.scheduler_pool == first.scheduler_pool
        assert second.template == first.template
        assert not second.is_template_new

    run_virtual(main)


def test_a_runner_with_a_reusable_session_is_ready_at_once() -> None:
    async def main() -> None:
        pool = pool_with(EngineOptions(), server=Server())
        runner = replace(await pool.take(OWNER), is_warm=False)
        received = list(cast(Any, runner.process).received)
        assert pool.take_back(runner, with_session=True)
        again = await pool.take(OWNER)
        assert again == replace(runner, is_warm=True, tasks=2)
        assert cast(Any, again.process).received == received, "the runner gets no message"

    run_virtual(main)


def test_a_runner_is_not_taken_back_after_its_last_task_or_when_it_is_useless() -> None:
    async def main() -> None:
        server = Server()
        options = EngineOptions(runner_tasks=3, warm_runners=1)

        def is_taken_back(
            runner: WarmRunner,
            *,
            spares: int = 0,
            current: Server | None = None,
            with_session: bool = True,
        ) -> bool:
            pool = pool_with(options, server=server, spares=spares, current=current)
            return pool.take_back(runner, with_session=with_session)

        assert is_taken_back(warm_runner(server, tasks=2))
        assert not is_taken_back(warm_runner(server, tasks=3))
        assert not is_taken_back(warm_runner(server), spares=1, with_session=False)
        assert is_taken_back(warm_runner(server), spares=1)
        assert not is_taken_back(warm_runner(server), current=Server())
        dead = warm_runner(server)
        cast(Any, dead.process).is_alive = False
        assert not is_taken_back(dead)
        await asyncio.sleep(1)

    run_virtual(main)


def test_surplus_runners_taken_back_in_a_rush_are_dismissed_when_the_rush_is_over() -> None:
    async def main() -> None:
        options = EngineOptions(warm_runners=1, replenish_delay=timedelta(seconds=0))
        pool = pool_with(options, server=Server())
        keeping = asyncio.create_task(pool.run())
        runners = [await pool.take(OWNER) for _ in range(4)]
        taken_back = [runner for runner in runners if pool.take_back(runner, with_session=True)]
        assert len(taken_back) > options.warm_runners
        await asyncio.sleep(5)
        (kept,) = pool._spares
        assert cast(WarmRunner, kept.result()).is_warm
        doomed = [runner for runner in taken_back if cast(Any, runner.process).is_doomed]
        assert len(doomed) >= len(taken_back) - 1
        assert all(isinstance(cast(Any, each.process).received[-1], Leave) for each in doomed)
        keeping.cancel()
        await asyncio.wait([keeping])

    run_virtual(main)


def test_a_session_that_comes_back_displaces_the_spare_started_meanwhile() -> None:
    async def main() -> None:
        options = EngineOptions(warm_runners=1, replenish_delay=timedelta(seconds=2))
        pool = pool_with(options, server=Server())
        keeping = asyncio.create_task(pool.run())
        await asyncio.sleep(1)
        runner = await pool.take(OWNER)
        await asyncio.sleep(60)
        (made,) = [cast(WarmRunner, spare.result()) for spare in pool._spares]
        assert pool.take_back(runner, with_session=True)
        await asyncio.sleep(10)
        (kept,) = [cast(WarmRunner, spare.result()) for spare in pool._spares]
        assert kept.process is runner.process
        assert isinstance(cast(Any, made.process).received[-1], Leave)
        keeping.cancel()
        await asyncio.wait([keeping])

    run_virtual(main)


def test_many_tasks_within_a_second_are_a_rush_and_spread_out_ones_are_not() -> None:
    async def main() -> None:
        pool = pool_with(EngineOptions(), server=Server(), spares=9)
        await asyncio.sleep(1)
        for _ in range(5):
            await pool.take(OWNER)
            await asyncio.sleep(2)
        assert not pool._is_rushed
        for _ in range(3):
            await pool.take(OWNER)
        assert pool._is_rushed

    run_virtual(main)


def test_preparing_spares_does_not_wait_for_a_runner_that_came_back() -> None:
    async def main() -> None:
        options = EngineOptions(replenish_delay=timedelta(seconds=10))
        pool = pool_with(options, server=Server())
        runner = await pool.take(OWNER)
        loop = asyncio.get_running_loop()
        loop.call_later(3, partial(pool.take_back, runner, with_session=True))
        began = loop.time()
        await pool._wait_until_calm()
        assert 3 <= loop.time() - began < 4

    run_virtual(main)


def test_a_runner_that_has_run_a_task_is_for_jobs_of_the_same_owner() -> None:
    """With its session or without; also while another session is being opened in it."""

    async def main() -> None:
        for with_session in (True, False):
            pool = pool_with(EngineOptions(warm_runners=3), server=Server())
            of_ana = await pool.take("ana")
            assert pool.take_back(of_ana, with_session=with_session)
            of_bob = await pool.take("bob")
            assert of_bob.process is not of_ana.process
            assert (of_bob.owner, of_bob.tasks) == ("bob", 1)
            again = await pool.take("ana")
            assert again.process is of_ana.process
            assert (again.owner, again.tasks) == ("ana", 2)
            # A third time: the owner stays with the process.
            assert pool.take_back(again, with_session=with_session)
            await asyncio.sleep(1)
            assert (await pool.take("bob")).process is not of_ana.process
            assert (await pool.take("")).process is not of_ana.process

    run_virtual(main)


def test_a_runner_that_is_being_warmed_for_another_task_is_for_the_same_owner() -> None:
    async def main() -> None:
        pool = pool_with(EngineOptions(warm_runners=1), server=Server())
        of_ana = await pool.take("ana")
        assert pool.take_back(of_ana, with_session=False)
        await asyncio.sleep(1)
        pool._rush_until = 0.0
        pool._top_up()
        (warming,) = pool._spares
        assert not warming.done()
        assert (await pool.take("bob")).process is not of_ana.process
        assert (await pool.take("ana")).process is of_ana.process

    run_virtual(main)


def test_with_several_owners_spares_that_nobody_has_used_are_kept_too() -> None:
    async def main() -> None:
        options = EngineOptions(warm_runners=1, replenish_delay=timedelta(seconds=0))
        pool = pool_with(options, server=Server())
        keeping = asyncio.create_task(pool.run())
        await asyncio.sleep(1)
        for owner in ("ana", "bob", "ana"):
            pool.take_back(await pool.take(owner), with_session=True)
            await asyncio.sleep(10)
        owners = [cast(WarmRunner, spare.result()).owner for spare in pool._spares]
        assert sorted(owners, key=str) == [None, "ana"]
        keeping.cancel()
        await asyncio.wait([keeping])

    run_virtual(main)


@given(st.lists(st.tuples(st.sampled_from(["ana", "bob"]), st.sampled_from(["take", "back"]))))
def test_no_order_of_tasks_gives_an_owner_the_process_or_session_of_another(
    events: list[tuple[str, str]],
) -> None:
    async def main() -> None:
        pool = pool_with(EngineOptions(warm_runners=2), server=Server())
        in_use: dict[str, list[WarmRunner]] = {"ana": [], "bob": []}
        processes: dict[Any, str] = {}
        sessions: dict[str, str] = {}
        for number, (owner, event) in enumerate(events):
            if event == "take":
                runner = await pool.take(owner)
                assert processes.setdefault(runner.process, owner) == owner
                assert sessions.setdefault(runner.session_id, owner) == owner
                in_use[owner].append(runner)
            elif in_use[owner]:
                pool.take_back(in_use[owner].pop(), with_session=number % 2 == 0)
        await asyncio.sleep(1)

    run_virtual(main)
