"""Two real processes on one machine: the standby leads as soon as the leader is killed."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from stoker.aio.scope import TaskScope
from stoker.core.ids import Ids, ResourceId
from stoker.ha.election import LeaderElection
from stoker.ha.leadership import Leadership
from stoker.ha.open import open_coordinator
from stoker.ha.retrieval import LeaderRetrieval

LEAD = """
import asyncio, sys
from stoker.aio.scope import TaskScope
from stoker.core.ids import Ids
from stoker.ha.election import LeaderElection
from stoker.ha.open import open_coordinator

async def main():
    ids = Ids()
    session = await open_coordinator(sys.argv[1], ids=ids)
    election = LeaderElection(session, process="child", ids=ids)

    async def lead(leadership):
        await leadership.publish("child")
        print("leads", flush=True)
        await asyncio.Event().wait()

    async with TaskScope("child") as scope:
        scope.spawn("election", election.run())
        await election.run_while_leading("dispatcher", lead)

asyncio.run(main())
"""


async def test_a_standby_takes_over_when_the_leader_is_killed(tmp_path: Path):
    # LEAD-12, LEAD-17 and LEAD-18 with real processes
    url = f"embedded://{tmp_path}/coordinator"
    ids = Ids()
    session = await open_coordinator(url, ids=ids)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LEAD, url, stdout=subprocess.PIPE
    )
    election = LeaderElection(session, process=ResourceId("standby"), ids=ids)
    retrieval = LeaderRetrieval(session, "dispatcher")
    granted: asyncio.Queue[Leadership] = asyncio.Queue()

    async def lead(leadership: Leadership) -> None:
        await leadership.publish("standby")
        granted.put_nowait(leadership)
        await asyncio.Event().wait()

    try:
        async with asyncio.timeout(30), TaskScope("standby") as scope:
            assert child.stdout is not None
            assert await child.stdout.readline() == b"leads\n"
            scope.spawn("retrieval", retrieval.run())
            scope.spawn("election", election.run())
            scope.spawn("dispatcher", election.run_while_leading("dispatcher", lead))
            before = await retrieval.wait_for_leader()
            assert before.address == "child"
            assert granted.empty()
            child.send_signal(signal.SIGKILL)
            leadership = await granted.get()
            assert leadership.token.epoch > before.token.epoch
            async for leader in retrieval.leaders():
                if leader is not None and leader.address == "standby":
                    break
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
        await session.close()
