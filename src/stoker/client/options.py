"""What can be set about a client."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from stoker.core.options import ByteSize, option


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    master: str | None = option(
        "client.master",
        "The master that commands speak to: a URL, or several separated by commas; unset means a "
        "local cluster.",
        None,
    )
    token: str | None = option(
        "client.token",
        "What proves to a cluster with tokens that this client may call; see `stoker token`.",
        None,
        secret=True,
    )
    authorities: Path | None = option(
        "client.ssl.authorities",
        "Certificates of those who sign for masters with an https:// URL, as PEM; unset: those "
        "that the system trusts.",
        None,
    )
    certificate: Path | None = option(
        "client.ssl.certificate",
        "Certificate that this client shows to a master that asks for one, as PEM.",
        None,
    )
    key: Path | None = option("client.ssl.key", "Private key of that certificate.", None)
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
    operation_timeout: timedelta = option(
        "client.operation-timeout",
        "How long a client waits for a savepoint that it asked for; the cluster goes on with it.",
        timedelta(hours=1),
    )
    heartbeat_interval: timedelta = option(
        "client.heartbeat.interval",
        "How often the client of a job that is bound to it shows that it is there.",
        timedelta(seconds=30),
    )
    heartbeat_timeout: timedelta = option(
        "client.heartbeat.timeout",
        "A job that is bound to its client is cancelled when that has been silent for so long.",
        timedelta(minutes=3),
    )
    silence: timedelta = option(
        "client.silence-timeout",
        "Where several masters are named: how long one of them may be silent before the next one "
        "is asked; twice as long after each round in which all were, up to client.timeout.",
        timedelta(seconds=5),
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
