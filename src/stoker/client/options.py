"""What can be set about a client."""

from dataclasses import dataclass
from datetime import timedelta

from stoker.core.options import ByteSize, option


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    master: str | None = option(
        "client.master",
        "The master that commands speak to: a URL, or several separated by commas; unset means a "
        "local cluster.",
        None,
    )
    retries: int = option(
        "rest.retry.max-attempts",
        "How often a call is repeated when no master can be reached or none leads.",
        20,
    )
    retry_delay: timedelta = option(
        "rest.retry.delay", "Pause before such a repetition.", timedelta(seconds=3)
    )
    timeout: timedelta = option(
        "client.timeout", "How long the answer to a call may take.", timedelta(minutes=1)
    )
    connect_timeout: timedelta = option(
        "rest.connection-timeout",
        "How long a connection to a master may take to open.",
        timedelta(seconds=15),
    )
    max_content_length: ByteSize = option(
        "rest.client.max-content-length",
        "Largest answer that a client accepts.",
        ByteSize(100 * 1024 * 1024),
    )
