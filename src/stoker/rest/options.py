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
    max_requests_per_second: int = option(
        "rest.server.max-requests-per-second",
        "How many requests a second one caller may make, in bursts of as many; 0 is any number.",
        1000,
    )
    max_concurrent_uploads: int = option(
        "rest.server.max-concurrent-uploads",
        "How many requests with files are taken at once; others are told to come again.",
        64,
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
    submit_enabled: bool = option(
        "web.submit.enable", "Whether programs can be uploaded and run from there.", True
    )
    cancel_enabled: bool = option(
        "web.cancel.enable", "Whether a web page shows that jobs can be cancelled.", True
    )
    program_timeout: timedelta = option(
        "web.program.timeout",
        "How long an uploaded program may take to describe its job.",
        timedelta(seconds=60),
    )
    program_memory: ByteSize = option(
        "web.program.memory",
        "How much memory an uploaded program may use to describe its job; 0 is any.",
        ByteSize(4 * 1024 * 1024 * 1024),
    )
    allow_origin: str = option(
        "web.access-control-allow-origin",
        "Web pages of which origin may use this server: one, a list with commas, or * for all; "
        "by default only its own.",
        "",
    )
    operation_store_duration: timedelta = option(
        "rest.async.store-duration",
        "How long the result of an asynchronous operation is kept to be asked for; 0 is for ever.",
        timedelta(minutes=5),
    )
    refresh_interval: timedelta = option(
        "web.refresh-interval", "How often a web page asks again.", timedelta(seconds=3)
    )
