"""Combines the engines of a task executor: each task runs on the engine that its job names."""

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from stoker.core.errors import StartupFailed, Unavailable
from stoker.core.graph import EngineKind, engine_of
from stoker.engine.contract import Engine, EngineFigures, EngineState, Listener, RunningTask, Task


class EngineRouter:
    """Ready when the connect engine is ready, since most jobs run there.

    Without a connect engine, ready when the classic engine is.
    """

    def __init__(self, *, connect: Engine | None, classic: Engine | None) -> None:
        if connect is None and classic is None:
            raise StartupFailed(
                "taskmanager.engines names no engine; write connect, classic or both"
            )
        self._connect = connect
        self._classic = classic

    @property
    def _main(self) -> Engine:
        engine = self._connect or self._classic
        assert engine is not None
        return engine

    @property
    def state(self) -> EngineState:
        return self._main.state

    @property
    def description(self) -> Mapping[str, str]:
        others = self._classic.description if self._classic is not None else {}
        return {**others, **self._main.description}

    @property
    def figures(self) -> EngineFigures:
        known = self._main.figures
        if self._classic is None or self._classic is self._main:
            return known
        return replace(known, warm_drivers=self._classic.figures.warm_drivers)

    async def wait_until_ready(self) -> None:
        await self._main.wait_until_ready()

    async def launch(self, task: Task, listener: Listener) -> RunningTask:
        kind = engine_of(task.graph)
        match kind:
            case EngineKind.CONNECT:
                engine = self._connect
            case EngineKind.CLASSIC:
                engine = self._classic
            case _:
                assert_never(kind)
        if engine is None:
            raise Unavailable(
                f"this task executor has no {kind} engine; add it to taskmanager.engines"
            )
        return await engine.launch(task, listener)

    async def close(self) -> None:
        for engine in (self._classic, self._connect):
            if engine is not None:
                await engine.close()
