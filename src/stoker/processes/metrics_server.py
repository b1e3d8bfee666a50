"""The metrics of a task executor over HTTP: a REST server with one path.

It shares everything else with the REST server of a master: tokens and roles, TLS, limits, and the
refusal of foreign web pages. It is off unless `metrics.port` is set, so that a task executor opens
no port and loads no HTTP server that nobody asked for.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stoker import __version__
from stoker.blob.options import BlobOptions
from stoker.blob.server import BlobServer
from stoker.config.configuration import Configuration
from stoker.core.errors import NoLeader
from stoker.gateways.dispatcher import DispatcherGateway
from stoker.metrics.options import PORT_OFF, MetricOptions
from stoker.processes.opening import ProcessResources, token_file
from stoker.rest.control.prometheus import prometheus_metrics
from stoker.rest.http.middleware import RestMiddleware
from stoker.rest.http.routing import Router
from stoker.rest.options import RestOptions
from stoker.rest.server import ListenKeys, serving
from stoker.rest.services import RestServices
from stoker.security.binding import check_token_transport
from stoker.security.material import rest_material
from stoker.security.options import RestSecurityOptions

_KEYS = ListenKeys(
    bind_address="metrics.bind-address", bind_port="metrics.port", address="metrics.address"
)


@asynccontextmanager
async def serving_metrics(
    configuration: Configuration, resources: ProcessResources
) -> AsyncIterator[str]:
    """Yields the URL of the metrics; an empty text if they are not served."""
    options = configuration.of(MetricOptions)
    if options.port == PORT_OFF:
        yield ""
        return
    security = configuration.of(RestSecurityOptions)
    tokens = token_file(security)
    if tokens is not None:
        check_token_transport(
            options.bind_address,
            _KEYS.bind_address,
            is_protected=security.tls or security.allow_plain_tokens,
        )
    rest = RestOptions(
        bind_address=options.bind_address, bind_port=options.port, address=options.address
    )
    uploads = resources.directories.work / "uploads"
    services = RestServices(
        dispatcher=_find_no_dispatcher,
        blobs=BlobServer(resources.storage, uploads, configuration.of(BlobOptions)),
        leads=lambda: True,
        leader_url=lambda: None,
        forwarding_url=lambda: None,
        options=rest,
        version=__version__,
        tokens=tokens,
        roles_of_certificates=security.roles_of_certificates(),
        metrics=resources.metrics,
    )
    async with serving(
        RestMiddleware(Router([prometheus_metrics]), services),
        rest,
        authenticated=tokens is not None or security.mutual,
        tls=rest_material(security),
        asks_for_certificates=security.mutual,
        keys=_KEYS,
    ) as url:
        yield f"{url}/metrics"


async def _find_no_dispatcher() -> DispatcherGateway:
    raise NoLeader("a task executor answers nothing but /metrics; ask a master")
