"""What can be set about access: tokens for REST, TLS for REST and between processes."""

from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import InvalidOption
from stoker.core.options import ByteSize, option


@dataclass(frozen=True, kw_only=True)
class RestSecurityOptions:
    """Access to the REST server."""

    tokens: Path | None = option(
        "security.rest.tokens",
        "File of the tokens that may call the REST API, made by `stoker token create`; all masters "
        "need the same. Unset: whoever reaches the port may call.",
        None,
    )
    allow_plain_tokens: bool = option(
        "security.rest.allow-plain-tokens",
        "Whether tokens may be used without TLS beyond this machine, because a proxy in front of "
        "the masters does TLS. Standbys then also forward to a leader elsewhere without TLS.",
        False,
    )
    tls: bool = option("security.ssl.rest.enabled", "Serve REST over TLS only.", False)
    certificate: Path | None = option(
        "security.ssl.rest.certificate",
        "Certificate of the REST server with its chain, as PEM.",
        None,
    )
    key: Path | None = option("security.ssl.rest.key", "Private key of that certificate.", None)
    authorities: Path | None = option(
        "security.ssl.rest.authorities",
        "Certificates of the authorities that sign for REST, as PEM. A master uses them to check "
        "other masters, and clients if these must show a certificate. Unset: the authorities that "
        "the system trusts.",
        None,
    )
    mutual: bool = option(
        "security.ssl.rest.authentication-enabled",
        "Whether clients of REST must show a certificate signed by security.ssl.rest.authorities.",
        False,
    )


@dataclass(frozen=True, kw_only=True)
class InternalSecurityOptions:
    """Access between masters and task executors."""

    tls: bool = option(
        "security.ssl.internal.enabled",
        "Mutual TLS between the processes of the cluster: each must show a certificate.",
        False,
    )
    certificate: Path | None = option(
        "security.ssl.internal.certificate",
        "Certificate of this process with its chain, as PEM; it must name the hosts on which it is "
        "used.",
        None,
    )
    key: Path | None = option("security.ssl.internal.key", "Private key of that certificate.", None)
    authorities: Path | None = option(
        "security.ssl.internal.authorities",
        "Certificates of the authorities that sign for the processes of this cluster, as PEM.",
        None,
    )
    secret: Path | None = option(
        "security.internal.secret-file",
        "File with the secret by which the processes of a cluster on one machine know each other; "
        "the first process makes it. Unset: cluster-secret in high-availability.storageDir, or in "
        "~/.stoker if the storage is not a directory. Not used with security.ssl.internal.enabled.",
        None,
    )


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """The log of changes and refusals."""

    file: Path | None = option(
        "security.audit.file",
        "File with one line of JSON for each change that a caller of a master asked for, and for "
        "each refusal; unset: audit/audit.jsonl in the working directory.",
        None,
    )
    max_size: ByteSize = option(
        "security.audit.max-size",
        "Size at which the audit log is rotated.",
        ByteSize(10 * 1024 * 1024),
    )
    max_files: int = option(
        "security.audit.max-files",
        "Number of files that are kept of the audit log; the oldest is deleted.",
        10,
    )

    def __post_init__(self) -> None:
        for key, value in (
            ("security.audit.max-size", self.max_size),
            ("security.audit.max-files", self.max_files),
        ):
            if value < 1:
                raise InvalidOption(f"{key} is {value}; set it to 1 or more", key=key)
