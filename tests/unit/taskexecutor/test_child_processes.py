"""What child processes are for."""

import asyncio

from stoker.engine.contract import EngineFigures
from stoker.taskexecutor.child_processes import KINDS, ChildProcesses, kinds_of


def test_a_child_is_what_its_ancestor_is_for() -> None:
    kinds = kinds_of([10, 11, 12, 20, 21, 30, 31], server=11, below_server=[12], runners=[20, 21])
    assert kinds == {
        10: "drivers",
        11: "spark_server",
        12: "python_workers",
        20: "runners",
        21: "runners",
        30: "drivers",
        31: "drivers",
    }


async def test_a_child_process_is_counted_with_its_memory() -> None:
    process = await asyncio.create_subprocess_exec("sleep", "60")
    children = ChildProcesses(lambda: EngineFigures(zygote_pid=process.pid))
    try:
        await children.look()
    finally:
        process.kill()
        await process.wait()
    assert children.count["runners"] == 1
    assert children.resident["runners"] > 0
    assert set(children.count) == set(KINDS)
