"""What can be set about the REST server."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from stoker.core.options import ByteSize, option


@dataclass(frozen=True, kw_only=True)
class RestOptions:
    bind_address: str = option(
        "rest.bind-address", "Address that the REST server listens on.", "127.0.0.1"
    )
    bind_port: str = option(
        "rest.bind-port",
        "Port, list (8081,8083) or range (8081-8090) that the server tries in order; 0 is any.",
        "8081-8090",
    )
    address: str | None = option(
        "rest.address",
        "Host name under which clients reach this master, where it differs from the bind address.",
        None,
    )
    max_content_length: ByteSize = option(
        "rest.server.max-content-length",
        "Largest request that is accepted: a job graph with all its files.",
        ByteSize(100 * 1024 * 1024),
    )
    max_graph_size: ByteSize = option(
        "rest.server.max-graph-size",
        "Largest job graph that is accepted, without its files.",
        ByteSize(16 * 1024 * 1024),
    )
    max_wait: timedelta = option(
        "rest.server.max-wait",
        "Longest time that a request may wait for a change of a job.",
        timedelta(seconds=30),
    )
    shutdown_timeout: timedelta = option(
        "rest.server.shutdown-timeout",
        "How long requests in progress may take to end when the server closes.",
        timedelta(seconds=5),
    )
    upload_directory: Path | None = option(
        "web.upload.dir",
        "Where files of a request are kept while it lasts; by default the system's own place.",
        None,
    )
    refresh_interval: timedelta = option(
        "web.refresh-interval", "How often a web page asks again.", timedelta(seconds=3)
    )
