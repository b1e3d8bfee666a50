"""Tools for asyncio that the parts share, and the door for programs that use asyncio."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.client.connecting import connect_async as connect

__all__ = ["connect"]


def __getattr__(name: str) -> Any:
    # Only the name is here, for users; its home is the client, which this layer does not know.
    if name == "connect":
        from stoker.client.connecting import connect_async  # noqa: PLC0415

        return connect_async
    raise AttributeError(f"module 'stoker.aio' has no attribute {name!r}")
