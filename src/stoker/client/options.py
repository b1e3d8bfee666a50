"""Options of a client."""

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
        "Token that this client shows to a cluster with tokens; see `stoker token`.",
        None,
        secret=True,
    )
    server_user: str | None = option(
        "client.server-user",
        "User who runs the masters of this machine: without TLS, the token is not sent to a port "
        "of this machine on which another user listens. Unset: this user if a local cluster is on "
        "record, otherwise every user is trusted.",
        None,
    )
    authorities: Path | None = option(
        "client.ssl.authorities",
        "Certificates of the authorities that sign for masters with an https:// URL, as PEM; unset "
        "means those that the system trusts.",
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
        "rest.retry.delay", "Pause before a call is repeated.", timedelta(seconds=3)
    )
    first_contact: timedelta = option(
        "client.first-contact-timeout",
        "How long a client that has reached no master yet tries to connect to one; once a master "
        "has answered, rest.retry.* applies, so that a change of leader is waited for.",
        timedelta(seconds=1),
    )
    timeout: timedelta = option(
        "client.timeout", "How long the answer to a call may take.", timedelta(minutes=1)
    )
    operation_timeout: timedelta = option(
        "client.operation-timeout",
        "How long a client waits for a savepoint or checkpoint that it has requested; the cluster "
        "completes it in any case.",
        timedelta(hours=1),
    )
    heartbeat_interval: timedelta = option(
        "client.heartbeat.interval",
        "How often the client of an attached job sends a heartbeat.",
        timedelta(seconds=30),
    )
    heartbeat_timeout: timedelta = option(
        "client.heartbeat.timeout",
        "An attached job is cancelled when its client has sent no heartbeat for this long.",
        timedelta(minutes=3),
    )
    silence: timedelta = option(
        "client.silence-timeout",
        "With several masters: how long one may be silent before the next is asked. Doubles after "
        "each round in which all were silent, up to client.timeout.",
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
