import random

from stoker.core.ids import Ids
from stoker.ha.identity import bind_to_same_cluster
from stoker.ha.memory import MemoryCoordination
from stoker.storage.memory import MemoryStorage
from stoker.testing.leadership import seize_leadership


async def test_a_coordinator_and_a_storage_are_bound_when_they_first_meet() -> None:
    ids, storage = Ids(random.Random(1)), MemoryStorage()
    ours = MemoryCoordination()
    for _ in range(2):
        leadership = await seize_leadership(ours.session(), ids=ids)
        assert await bind_to_same_cluster(leadership, storage, ids)


async def test_another_coordinator_does_not_belong_to_the_storage() -> None:
    ids, storage = Ids(random.Random(1)), MemoryStorage()
    for first in (True, False):
        leadership = await seize_leadership(MemoryCoordination().session(), ids=ids)
        assert await bind_to_same_cluster(leadership, storage, ids) is first
