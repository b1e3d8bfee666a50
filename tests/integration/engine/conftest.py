"""One warm engine for all tests of this folder."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from integration.engine.bench import OPTIONS, Bench
from stoker.engine.connect.engine import ConnectEngine


@pytest.fixture(scope="session")
def engine_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def engine(
    tmp_path_factory: pytest.TempPathFactory, engine_logs: Path
) -> AsyncIterator[ConnectEngine]:
    work = tmp_path_factory.mktemp("engine") / "work"
    async with ConnectEngine.open(OPTIONS, work, engine_logs) as opened:
        # A task executor waits like this before it takes tasks. A task of a cold engine gets a
        # runner that has not called Spark's monitoring pages yet. Their first answer takes many
        # seconds on a busy machine, and the first cancellation would have to wait for it.
        await opened.wait_until_ready()
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def bench(engine: ConnectEngine, tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(engine, tmp_path)
    yield made
    await made.end()
