"""How every store writes: fenced by the epoch, with unknown outcomes resolved by reading back."""

from collections.abc import Callable, Sequence

from stoker.core.errors import ConnectionLost, CoordinatorUnavailable, SessionExpired, Unavailable
from stoker.ha.coordinator import ConnectionState, Coordinator, Op, Versioned
from stoker.ha.leadership import Leadership

IsOurs = Callable[[bytes], bool]
"""Whether a value is exactly the one of this write, recognized by its nonce."""


async def commit_or_read_back(
    leadership: Leadership, ops: Sequence[Op], *, key: str, is_ours: IsOurs
) -> None:
    """Commit fenced, and find out the outcome before returning or raising.

    Only ConnectionLost means that the outcome is still unknown, because the key could not be read
    back, for example because the session ended. Content that the write may point to must not be
    deleted then. The caller sets the deadline.
    """
    try:
        await leadership.commit(ops)
    except ConnectionLost as lost:
        found = await _read_back(leadership.coordinator, key, lost)
        if found is None or not is_ours(found.value):
            raise CoordinatorUnavailable(
                f"the connection was lost and {key} was not written; try again", key=key
            ) from lost


async def _read_back(coordinator: Coordinator, key: str, lost: ConnectionLost) -> Versioned | None:
    while True:
        state = coordinator.state
        while state is ConnectionState.SUSPENDED:
            state = await coordinator.wait_for_state_other_than(state)
        try:
            await coordinator.sync()
            return await coordinator.read(key)
        except SessionExpired:
            raise lost from None
        except Unavailable:
            if coordinator.state is ConnectionState.CONNECTED:
                # Connected, and yet the key cannot be read: waiting might never end.
                raise lost from None
