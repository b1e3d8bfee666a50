"""Options of sessions with ZooKeeper."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from importlib.util import find_spec

from stoker.core.errors import InvalidOption
from stoker.core.options import option

_PREFIX = "high-availability.zookeeper.client"


class AccessControl(StrEnum):
    OPEN = "open"
    CREATOR = "creator"


@dataclass(frozen=True, kw_only=True)
class ZooKeeperOptions:
    session_timeout: timedelta = option(
        f"{_PREFIX}.session-timeout",
        "How long a silent process keeps its leadership. The servers may grant another time: by "
        "default between 2 and 20 of their ticks.",
        timedelta(seconds=10),
    )
    connection_timeout: timedelta = option(
        f"{_PREFIX}.connection-timeout",
        "How long to look for a server that answers when a process starts.",
        timedelta(seconds=15),
    )
    tolerates_suspension: bool = option(
        f"{_PREFIX}.tolerate-suspended-connections",
        "Whether a leader that has lost contact continues to lead, without writing, until its "
        "session may have ended; by default it stops at once.",
        False,
    )
    acl: AccessControl = option(
        f"{_PREFIX}.acl",
        "Who may read and change the records: open (everybody), or creator (those who authenticate "
        "as the writer did; needs auth or sasl.mechanism). It also holds for nodes above the root "
        "that a process has to make.",
        AccessControl.OPEN,
    )
    auth: tuple[str, ...] = option(
        f"{_PREFIX}.auth",
        "Credentials, each as SCHEME:CREDENTIAL, such as digest:user:password.",
        (),
        secret=True,
    )
    sasl_mechanism: str | None = option(
        f"{_PREFIX}.sasl.mechanism",
        "Authenticate by SASL: DIGEST-MD5 or GSSAPI. Needs the package pure-sasl.",
        None,
    )
    sasl_username: str | None = option(
        f"{_PREFIX}.sasl.username", "User name, for DIGEST-MD5.", None
    )
    sasl_password: str | None = option(
        f"{_PREFIX}.sasl.password", "Password, for DIGEST-MD5.", None, secret=True
    )
    sasl_principal: str | None = option(
        f"{_PREFIX}.sasl.principal", "Principal, for GSSAPI; unset: that of the ticket cache.", None
    )
    sasl_service: str = option(
        f"{_PREFIX}.sasl.service", "Name of the servers' Kerberos service.", "zookeeper"
    )
    tls: bool = option(f"{_PREFIX}.tls.enabled", "Whether to connect over TLS.", False)
    tls_authorities: str | None = option(
        f"{_PREFIX}.tls.ca-file",
        "Certificates of the authorities that sign the servers' certificates, as PEM.",
        None,
    )
    tls_certificate: str | None = option(
        f"{_PREFIX}.tls.certificate-file", "Certificate to show to the servers.", None
    )
    tls_key: str | None = option(
        f"{_PREFIX}.tls.key-file", "Private key of that certificate.", None
    )
    tls_key_password: str | None = option(
        f"{_PREFIX}.tls.key-password", "Password of the private key.", None, secret=True
    )
    tls_verify: bool = option(
        f"{_PREFIX}.tls.verify", "Whether servers must show a trusted certificate.", True
    )
    tls_check_hostname: bool = option(
        f"{_PREFIX}.tls.check-hostname",
        "Whether the certificate must name the host that was connected to.",
        True,
    )

    def __post_init__(self) -> None:
        if self.session_timeout <= timedelta(0) or self.connection_timeout <= timedelta(0):
            raise InvalidOption(
                f"{_PREFIX}.session-timeout and {_PREFIX}.connection-timeout must be above zero"
            )
        if self.acl is AccessControl.CREATOR and not (self.auth or self.sasl_mechanism):
            raise InvalidOption(
                f"{_PREFIX}.acl is creator, and nothing says who the creator is: set "
                f"{_PREFIX}.auth or {_PREFIX}.sasl.mechanism"
            )
        if not all(scheme and credential for scheme, credential in self.credentials):
            raise InvalidOption(
                f"each of {_PREFIX}.auth must be SCHEME:CREDENTIAL, such as digest:user:password"
            )
        if self.sasl_mechanism and find_spec("puresasl") is None:
            raise InvalidOption(
                f"{_PREFIX}.sasl.mechanism needs a package that is not installed; "
                "pip install pure-sasl"
            )

    @property
    def credentials(self) -> list[tuple[str, str]]:
        parted = [text.partition(":") for text in self.auth]
        return [(scheme, credential) for scheme, _, credential in parted]
