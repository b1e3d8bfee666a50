"""Certificates and keys, read and checked before anything listens."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.core.errors import InvalidOption
from stoker.security.options import InternalSecurityOptions, RestSecurityOptions
from stoker.security.private_files import check_private_file


@dataclass(frozen=True, kw_only=True)
class TlsMaterial:
    certificate: Path
    key: Path
    authorities: Path | None

    def read(self) -> tuple[bytes, bytes, bytes | None]:
        """Key, certificate chain, authorities."""
        authorities = None if self.authorities is None else self.authorities.read_bytes()
        return self.key.read_bytes(), self.certificate.read_bytes(), authorities


def internal_material(options: InternalSecurityOptions) -> TlsMaterial | None:
    """Certificates for TLS between processes; None when it is off."""
    if not options.tls:
        return None
    if options.authorities is None:
        raise _missing("security.ssl.internal.authorities", "security.ssl.internal.enabled")
    return _checked(options.certificate, options.key, options.authorities, "security.ssl.internal")


def rest_material(options: RestSecurityOptions) -> TlsMaterial | None:
    """Certificates of the REST server; None when it serves without TLS."""
    if not options.tls:
        if options.mutual:
            raise InvalidOption(
                "security.ssl.rest.authentication-enabled needs security.ssl.rest.enabled"
            )
        return None
    if options.mutual and options.authorities is None:
        raise _missing("security.ssl.rest.authorities", "security.ssl.rest.authentication-enabled")
    return _checked(options.certificate, options.key, options.authorities, "security.ssl.rest")


def common_name_of(certificate: Mapping[str, Any] | None) -> str | None:
    """The common name of a peer's certificate, which was verified; None unless it has just one."""
    subject = (certificate or {}).get("subject", ())
    names = [value for part in subject for key, value in part if key == "commonName"]
    return names[0] if len(names) == 1 else None


def client_context(
    authorities: Path | None, certificate: Path | None, key: Path | None
) -> ssl.SSLContext:
    """TLS context of a REST client; it always checks the host name of the server."""
    try:
        context = ssl.create_default_context(cafile=authorities)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(each) for each in (authorities, certificate, key) if each is not None)
        raise InvalidOption(f"no usable certificate or key in {files}: {error}") from error
    return context


def _checked(
    certificate: Path | None, key: Path | None, authorities: Path | None, prefix: str
) -> TlsMaterial:
    if certificate is None:
        raise _missing(f"{prefix}.certificate", f"{prefix}.enabled")
    if key is None:
        raise _missing(f"{prefix}.key", f"{prefix}.enabled")
    for path in (certificate, key, authorities):
        if path is not None and not path.is_file():
            raise InvalidOption(f"{prefix}: there is no file {path}")
    check_private_file(key, f"{prefix}.key")
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        if authorities is not None:
            context.load_verify_locations(authorities)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(each) for each in (certificate, key, authorities) if each is not None)
        raise InvalidOption(
            f"{prefix}: the files do not fit together ({files}): {error}"
        ) from error
    return TlsMaterial(certificate=certificate, key=key, authorities=authorities)


def _missing(option: str, because: str) -> InvalidOption:
    return InvalidOption(f"{option} is not set, but {because} needs it")
