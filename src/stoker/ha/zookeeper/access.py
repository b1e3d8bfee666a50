"""Who can use an ensemble: refuses one through which strangers could command the cluster.

Task executors obey the leader whose address the ensemble holds, and standbys forward requests to
it. So whoever can write there is as good as the leader, unless processes show certificates.
"""

import logging

from stoker.core.errors import InvalidOption
from stoker.ha.zookeeper.location import Location
from stoker.ha.zookeeper.options import AccessControl, ZooKeeperOptions
from stoker.security.binding import is_loopback

log = logging.getLogger(__name__)


def check_ensemble_access(location: Location, options: ZooKeeperOptions) -> None:
    """Raises InvalidOption for an open ensemble that other machines can reach."""
    asks_for_certificates = options.tls and options.tls_certificate is not None
    if options.acl is AccessControl.CREATOR or asks_for_certificates:
        return
    hosts = [host.rpartition(":")[0].strip("[]") for host in location.hosts]
    if not all(map(is_loopback, hosts)):
        raise InvalidOption(
            f"whoever reaches ZooKeeper at {','.join(location.hosts)} could command this cluster: "
            "set high-availability.zookeeper.client.acl: creator with .auth or SASL, or "
            "security.ssl.internal.enabled"
        )
    log.warning(
        "every user of this machine can change the records of this cluster in ZooKeeper; set "
        "high-availability.zookeeper.client.acl: creator"
    )
