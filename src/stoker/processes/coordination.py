"""Opening the coordinator that a process's configuration names."""

from stoker.config.configuration import Configuration
from stoker.config.processes import ClusterOptions
from stoker.core.errors import StartupFailed, Unavailable
from stoker.core.ids import Ids
from stoker.gateways.leases import LeaseOptions
from stoker.ha.coordinator import Coordinator
from stoker.ha.open import open_coordinator
from stoker.ha.zookeeper.options import ZooKeeperOptions
from stoker.processes.directories import coordinator_url


async def open_session(
    configuration: Configuration, ids: Ids, *, auto_renewing: bool
) -> Coordinator:
    """A new session; Unavailable when the coordinator does not answer."""
    session = await open_coordinator(
        coordinator_url(configuration.of(ClusterOptions)),
        ids=ids,
        auto_renewing=auto_renewing,
        options=configuration.of(ZooKeeperOptions),
    )
    try:
        configuration.of(LeaseOptions).check_session_timeout(session.session_timeout)
    except BaseException:
        await session.close()
        raise
    return session


async def open_first_session(
    configuration: Configuration, ids: Ids, *, auto_renewing: bool
) -> Coordinator:
    """As `open_session`, at the start of a process, which needs a coordinator to begin at all."""
    try:
        return await open_session(configuration, ids, auto_renewing=auto_renewing)
    except Unavailable as error:
        url = coordinator_url(configuration.of(ClusterOptions))
        raise StartupFailed(
            f"the coordinator {url} cannot be reached: {error}; is it running, and is "
            "high-availability right?"
        ) from error
