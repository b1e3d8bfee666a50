"""`stoker shutdown`."""

import asyncio
import json

from stoker.core.states import ApplicationStatus
from stoker.testing.rest import Master


async def test_shutdown_without_yes_only_reports_the_running_jobs(served) -> None:
    result = await served("shutdown")
    assert result.exit_code == 1
    assert "this cancels 1 job that has not ended; add --yes" in result.stderr
    assert served.master.dispatcher.shut_down_as == []


async def test_a_cluster_that_still_answers_gives_exit_code_1(served) -> None:
    result = await served("shutdown", "--yes", "--wait", "0", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {"masters": served.url, "gone": False}
    assert served.master.dispatcher.shut_down_as == [ApplicationStatus.SUCCEEDED]


async def test_shutdown_returns_when_the_masters_have_ended(stoker) -> None:
    master = Master()
    async with master.serving() as url:
        command = asyncio.create_task(asyncio.to_thread(stoker, "-m", url, "shutdown", "--yes"))
        async with asyncio.timeout(60):
            await master.dispatcher.was_shut_down.wait()
    result = await command
    assert result.exit_code == 0, result.output
    assert "The cluster has ended." in result.stderr
