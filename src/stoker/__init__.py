"""Stoker: a highly available job service for PySpark."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Pipeline", "__version__", "connect", "connect_async"]

if TYPE_CHECKING:
    from stoker.pipeline import Pipeline
    from stoker.processes.connect import connect, connect_async

_HOMES = {
    "Pipeline": "stoker.pipeline",
    "connect": "stoker.processes.connect",
    "connect_async": "stoker.processes.connect",
}
"""Module of each public name, imported on first use: `stoker list` needs no authoring API."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'stoker' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext stoker`: adds the cell magic `%%stoker`."""
    import_module("stoker.notebook").register(shell)


def _prepare_notebook() -> None:
    """In Jupyter and IPython, let cells define UDFs whose types are written in words."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        import_module("stoker.pipeline.udf_types").keep_types_of_cells_as_text(shell)


_prepare_notebook()
