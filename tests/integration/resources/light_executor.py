"""The `stoker` command with task executors that need no Spark: a real process, a fake engine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stoker.aio.clock import system_wall_clock
from stoker.cli.main import main
from stoker.processes import task_executor
from stoker.testing.fake_engine import FakeEngine
from stoker.testing.history import History


@asynccontextmanager
async def open_fake_engine(*_: object) -> AsyncIterator[FakeEngine]:
    engine = FakeEngine("light", History(), system_wall_clock)
    try:
        yield engine
    finally:
        await engine.close()


if __name__ == "__main__":
    task_executor._open_engines = open_fake_engine  # type: ignore[assignment]
    main()
