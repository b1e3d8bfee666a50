"""Return types of UDFs that a job's file, or a cell, defines where there is no Spark session yet.

PySpark asks the session what a type such as "double" means as soon as a UDF is defined. A job's
file is loaded before there is a session. While it is loaded, such a type stays text: PySpark reads
it when the UDF is used, and by then the job runs, on either engine. The cells of a notebook have no
session either, unless they make one: then PySpark reads the type as always.
"""

import ast
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stoker.pipeline.local_modules import imported_modules

_WITHOUT_UDFS = frozenset({"stoker", "__future__"}) | sys.stdlib_module_names


@contextmanager
def types_of_udfs_as_text(tree: ast.Module) -> Iterator[None]:
    """Let UDFs be defined without a session while the file with this tree is loaded.

    Does nothing for a file that cannot define any, because importing PySpark takes time.
    """
    if not may_define_udfs(tree) or importlib.util.find_spec("pyspark") is None:
        yield
        return
    originals = _read_types_later()
    try:
        yield
    finally:
        for kind, original in originals:
            kind.returnType = original


def keep_types_of_cells_as_text(shell: Any) -> None:
    """Let the cells of this shell of IPython define UDFs without a session, from now on.

    The present one, too: it may import Stoker and define a UDF.
    """
    cells = _Cells()
    cells.prepare((shell.user_ns.get("In") or [""])[-1])
    shell.events.register("pre_run_cell", cells.before_cell)


class _Cells:
    def __init__(self) -> None:
        self._is_prepared = False

    def before_cell(self, info: Any) -> None:
        """Called by IPython."""
        self.prepare(info.raw_cell or "")

    def prepare(self, cell: str) -> None:
        """PySpark is not imported for a cell that defines no UDF, because that takes time."""
        if self._is_prepared or "udf" not in cell:
            return
        self._is_prepared = True
        if importlib.util.find_spec("pyspark") is not None:
            _read_types_later()


def _read_types_later() -> list[tuple[Any, Any]]:
    """The classes of UDFs that changed, each with its original property."""
    originals = [(kind, kind.returnType) for kind in _udf_classes()]
    for kind, original in originals:
        kind.returnType = property(_read_later(original))
    return originals


def may_define_udfs(tree: ast.Module) -> bool:
    """Whether the file imports PySpark, or a module that may do so."""
    return any(name.split(".")[0] not in _WITHOUT_UDFS for name, _ in imported_modules(tree))


def _udf_classes() -> list[Any]:
    # Slow to import, and not installed with every client.
    from pyspark.sql.udf import UserDefinedFunction  # noqa: PLC0415
    from pyspark.sql.utils import is_remote  # noqa: PLC0415

    if not is_remote():
        return [UserDefinedFunction]
    from pyspark.sql.connect.udf import (  # noqa: PLC0415
        UserDefinedFunction as ConnectUserDefinedFunction,
    )

    return [UserDefinedFunction, ConnectUserDefinedFunction]


def _read_later(original: Any) -> Any:
    def return_type(udf: Any) -> Any:
        given = udf._returnType
        return given if isinstance(given, str) and not _is_session_there() else original.fget(udf)

    return return_type


def _is_session_there() -> bool:
    from pyspark.sql import SparkSession  # noqa: PLC0415

    return SparkSession.getActiveSession() is not None
