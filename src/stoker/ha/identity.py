"""Whether a coordinator and a storage belong to the same cluster.

Records at the coordinator and content in the storage are two halves of one thing. Whoever removes
content because no record points to it must be sure that it looks at the right records.
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
    """Binds them to each other when they meet for the first time."""
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
        # A leader before this one; a write whose outcome it never learnt.
        found = await leadership.coordinator.read(keys.CLUSTER)
        assert found is not None
        return found.value
    return identity
