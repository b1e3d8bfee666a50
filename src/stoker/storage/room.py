"""How much clients may store.

The records of running jobs need some bytes all the time: an outcome that cannot be written costs a
job its result. So what clients send (artifacts, programs, new jobs) leaves a reserve on the disk,
and all files of one kind may have a limit together.
"""

from collections.abc import Awaitable, Callable

from stoker.core.errors import StorageFull
from stoker.storage.contract import Storage

CheckRoom = Callable[[int], Awaitable[None]]
"""Raises StorageFull if there is no room for so many bytes."""


async def no_limit(_size: int) -> None:
    """There is room for everything."""


async def check_free_space(storage: Storage, size: int, *, reserve: int, option: str) -> None:
    """Raise StorageFull if so many more bytes would not leave the reserve free.

    `option` sets the reserve; 0 means none. Says nothing where the storage has no free space to
    tell, as remote ones do not.
    """
    if reserve <= 0:
        return
    free = await storage.free_bytes()
    if free is not None and free - size < reserve:
        raise StorageFull(
            f"the disk of the storage has {free} bytes free, and {reserve} of them are kept for "
            f"the records of running jobs ({option}): no room for {size} bytes more; free some "
            "space, then try again"
        )


def check_total_size(total: int, size: int, *, limit: int, option: str, remedy: str) -> None:
    """Raise StorageFull if so many more bytes would exceed the limit of all; 0 means none."""
    if limit and total + size > limit:
        raise StorageFull(
            f"{total} of {limit} bytes are used ({option}): no room for {size} bytes more; {remedy}"
        )
