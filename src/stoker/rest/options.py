"""Options of the REST server."""

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
        "Port, list (8081,8083) or range (8081-8090) that the server tries in order; 0: any.",
        "8081-8090",
    )
    address: str | None = option(
        "rest.address",
        "Name or address at which clients and the other masters reach this master's REST server; "
        "unset: the bind address. Required when that is a wildcard such as 0.0.0.0.",
        None,
    )
    socket: Path | None = option(
        "rest.socket",
        "Unix domain socket on which the REST server listens as well, for this user alone and "
        "without TLS; clients name it as unix:///PATH. A local cluster sets it by itself.",
        None,
    )
    max_content_length: ByteSize = option(
        "rest.server.max-content-length",
        "Largest request that the server accepts: a job graph with all its files.",
        ByteSize(100 * 1024 * 1024),
    )
    max_graph_size: ByteSize = option(
        "rest.server.max-graph-size",
        "Largest job graph that the server accepts, without its files.",
        ByteSize(16 * 1024 * 1024),
    )
    max_requests_per_second: int = option(
        "rest.server.max-requests-per-second",
        "How many requests a second one caller may send, in bursts of as many; 0: no limit.",
        1000,
    )
    max_concurrent_uploads: int = option(
        "rest.server.max-concurrent-uploads",
        "How many requests with files the server receives at once; any more are answered with 429.",
        64,
    )
    max_connections: int = option(
        "rest.server.max-connections",
        "How many connections the server keeps open, but never more than half of the files that "
        "its process may open; any more are answered with 503.",
        4096,
    )
    max_connections_per_address: int = option(
        "rest.server.max-connections-per-address",
        "How many of these connections one address may have, but never more than three quarters "
        "of them.",
        1024,
    )
    max_header_size: ByteSize = option(
        "rest.server.max-header-size",
        "Largest head of a request: its URL and its headers. A larger one is answered with 431.",
        ByteSize(64 * 1024),
    )
    header_timeout: timedelta = option(
        "rest.server.header-timeout",
        "How long a client may take to send the head of a request.",
        timedelta(seconds=10),
    )
    min_body_rate: ByteSize = option(
        "rest.server.min-body-rate",
        "Bytes a second at which the body of a request must arrive on average, after its first "
        "10 seconds; 0: no limit.",
        ByteSize(1024),
    )
    body_timeout: timedelta = option(
        "rest.server.body-timeout",
        "How long a client may take to send the body of a request.",
        timedelta(hours=1),
    )
    max_event_streams: int = option(
        "rest.server.max-event-streams",
        "How many event streams and followed logs the server sends at once; any more are answered "
        "with 429.",
        256,
    )
    max_event_streams_per_caller: int = option(
        "rest.server.max-event-streams-per-caller",
        "How many of them the server sends to one token, or without tokens to one address.",
        128,
    )
    max_wait: timedelta = option(
        "rest.server.max-wait",
        "Longest time that a request may wait for a job to change.",
        timedelta(seconds=30),
    )
    shutdown_timeout: timedelta = option(
        "rest.server.shutdown-timeout",
        "When the server closes: how long asynchronous operations have to end and clients to read "
        "their outcomes, and then how long requests in progress have to end.",
        timedelta(seconds=5),
    )
    upload_directory: Path | None = option(
        "web.upload.dir",
        "Directory for the files of a request while it is handled; by default one in the working "
        "directory of the master.",
        None,
    )
    programs_size_limit: ByteSize = option(
        "web.upload.size-limit",
        "Size of all uploaded programs together; 0: no limit.",
        ByteSize(10 * 1024 * 1024 * 1024),
    )
    submit_enabled: bool = option(
        "web.submit.enable", "Whether clients can upload programs and run them.", True
    )
    cancel_enabled: bool = option(
        "web.cancel.enable", "Whether a web page offers to cancel jobs.", True
    )
    program_timeout: timedelta = option(
        "web.program.timeout",
        "How long an uploaded program may take to define its job.",
        timedelta(seconds=60),
    )
    program_memory: ByteSize = option(
        "web.program.memory",
        "How much memory an uploaded program may use to define its job; 0: no limit.",
        ByteSize(4 * 1024 * 1024 * 1024),
    )
    max_compilations: int = option(
        "web.program.max-concurrent",
        "How many uploaded programs define their jobs at once; others wait for their turn.",
        2,
    )
    allow_origin: str = option(
        "web.access-control-allow-origin",
        "Origins whose web pages may use this server: one, a list with commas, or * for all; "
        "by default only its own.",
        "",
    )
    operation_store_duration: timedelta = option(
        "rest.async.store-duration",
        "How long the result of an asynchronous operation is kept; 0: without limit.",
        timedelta(minutes=5),
    )
    refresh_interval: timedelta = option(
        "web.refresh-interval", "How often a web page refreshes its data.", timedelta(seconds=3)
    )
