"""What a zygote does at the death of its task executor."""

import socket

import msgspec
import pytest

from stoker.engine.protocol import Forked
from stoker.engine.zygote.main import Zygote


@pytest.mark.parametrize("has_unread", [True, False])
def test_a_zygote_notices_the_death_of_its_task_executor(
    has_unread: bool,
) -> None:
    """Otherwise it would end with an error, and not kill what its runners have started."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        if has_unread:
            theirs.send(msgspec.msgpack.encode(Forked(runner=1, pid=7)))
        ours.close()
        assert not Zygote(theirs).handle_request()
