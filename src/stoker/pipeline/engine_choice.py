"""Which Spark a loaded pipeline gets."""

import ast
from dataclasses import replace

import msgspec

from stoker.core.graph import EngineKind
from stoker.pipeline.building import LoadedJob
from stoker.pipeline.program_scan import choose_engine

AUTO = "auto"


def with_engine(loaded: LoadedJob, tree: ast.Module | None, wanted: str = AUTO) -> LoadedJob:
    """The job with its engine and why; `tree` is of its Python file, if it is one."""
    choice = choose_engine(wanted, tree, loaded.graph.configuration, program=False)
    if choice.engine is EngineKind.CONNECT and wanted == AUTO:
        return loaded
    graph = msgspec.structs.replace(loaded.graph, engine=choice.engine, engine_reason=choice.reason)
    return replace(loaded, graph=graph)
