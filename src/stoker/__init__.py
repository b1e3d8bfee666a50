"""Stoker: a highly available job service for PySpark."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Pipeline", "__version__", "connect"]

if TYPE_CHECKING:
    from stoker.client.connecting import connect
    from stoker.pipeline import Pipeline


def __getattr__(name: str) -> Any:
    # Loaded on demand, so that `stoker list` does not pay for the authoring API.
    if name == "Pipeline":
        from stoker.pipeline import Pipeline  # noqa: PLC0415

        return Pipeline
    if name == "connect":
        from stoker.client.connecting import connect  # noqa: PLC0415

        return connect
    raise AttributeError(f"module 'stoker' has no attribute {name!r}")
