"""The end of a pipe from which the loop reads."""

import asyncio
import fcntl
import os
import struct
import termios


class PipeEnd:
    """Takes the descriptor over, and is the only one to close it.

    Not a transport of the loop: those of uvloop stay open when nothing more can come, until the
    garbage collector meets them, and then their descriptor is closed twice: by libuv and by the
    file that they were made of. In between it may have become somebody else's.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    async def read(self, size: int) -> bytes:
        """What there is, at most so much of it; empty at the end."""
        while True:
            try:
                return os.read(self._descriptor, size)
            except BlockingIOError:
                await self._until_readable()

    async def _until_readable(self) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._descriptor, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._descriptor)

    @property
    def has_more(self) -> bool:
        """Whether something was written that was not read."""
        (size,) = struct.unpack("i", fcntl.ioctl(self._descriptor, termios.FIONREAD, b"\0" * 4))
        return bool(size)

    def close(self) -> None:
        """Once, when nobody reads any more."""
        os.close(self._descriptor)
