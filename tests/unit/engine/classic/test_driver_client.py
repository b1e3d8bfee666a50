"""Starting a driver, as far as that needs no Spark."""

import asyncio
import errno
from pathlib import Path

import pytest

from stoker.core.errors import Unavailable
from stoker.engine.classic.driver_client import DriverSetup, start_driver
from stoker.engine.classic.options import ClassicOptions
from stoker.engine.java import Java
from stoker.engine.options import EngineOptions


async def test_a_driver_that_the_machine_cannot_start_is_unavailable_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    setup = DriverSetup(
        options=EngineOptions(),
        classic=ClassicOptions(),
        java=Java(home=Path("/java"), version=17),
        work=tmp_path,
        logs=tmp_path,
    )
    with pytest.raises(Unavailable, match="temporarily unavailable"):
        await start_driver(setup, "name", warm=False)
    assert list((tmp_path / "drivers").iterdir()) == []
