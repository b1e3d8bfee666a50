"""Whether a coordinator and a storage belong to the same cluster.

The sweep deletes content in the storage that no record at the coordinator points to. If a wrong
option joined the storage of one cluster with the coordinator of another, the sweep would delete
everything. So both carry the same identity, and the sweep runs only where they agree.
"""

from typing import Final

from stoker.core.errors import KeyExists
from stoker.core.ids import Ids
from stoker.ha import keys
from stoker.ha.coordinator import Create
from stoker.ha.leadership import Leadership
from stoker.storage.contract import Storage

FILE: Final = "cluster-id"


async def bind_to_same_cluster(leadership: Leadership, storage: Storage, ids: Ids) -> bool:
    """Whether both belong to one cluster; binds a storage that has no identity yet."""
    identity = await _identity(leadership, ids)
    try:
        await storage.create(FILE, identity)
    except KeyExists:
        return await storage.read(FILE) == identity
    return True


async def _identity(leadership: Leadership, ids: Ids) -> bytes:
    found = await leadership.coordinator.read(keys.CLUSTER)
    if found is not None:
        return found.value
    identity = ids.nonce().encode()
    try:
        await leadership.commit([Create(keys.CLUSTER, identity)])
    except KeyExists:
        # An earlier leader wrote it, or this one in a commit whose outcome it never learned.
        found = await leadership.coordinator.read(keys.CLUSTER)
        assert found is not None
        return found.value
    return identity
