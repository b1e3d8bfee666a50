"""Leaderships without an election, for tests of code that needs one."""

from stoker.core.ids import Ids, ResourceId
from stoker.core.values import FencingToken
from stoker.ha import keys
from stoker.ha.coordinator import Coordinator, Create, Put
from stoker.ha.grant import Grant
from stoker.ha.leadership import Leadership
from stoker.ha.publication import LeaderPublication


async def seize_leadership(
    coordinator: Coordinator,
    *,
    component: str = "dispatcher",
    process: str = "master",
    ids: Ids,
) -> Leadership:
    """Raise the epoch, whoever leads: all earlier leaderships are fenced off."""
    found = await coordinator.read(keys.EPOCH)
    op = Create(keys.EPOCH, b"") if found is None else Put(keys.EPOCH, b"", found.version)
    [epoch] = await coordinator.commit([op])
    grant = Grant(coordinator, process=ResourceId(process), epoch=epoch)
    token = FencingToken(epoch=epoch, session=ids.session())
    return Leadership(
        component=component,
        token=token,
        grant=grant,
        publication=LeaderPublication(grant, component, token),
    )
