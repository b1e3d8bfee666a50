"""How client and master identify themselves to each other: tokens, versions and TLS."""

import ssl

from stoker import __version__
from stoker.api.versions import CLIENT_HEADER, explain_refused_server, version_header
from stoker.client.options import ClientOptions
from stoker.core.errors import InvalidInput, InvalidOption
from stoker.security.material import client_context


def headers_of(options: ClientOptions) -> dict[str, str]:
    version = {CLIENT_HEADER: version_header(__version__)}
    if options.token is None:
        return version
    return version | {"Authorization": f"Bearer {options.token}"}


def check_server(header: str | None) -> None:
    """Raises InvalidInput for a master that is too old for this client."""
    refused = explain_refused_server(header, __version__)
    if refused is not None:
        raise InvalidInput(refused)


def context_for(url: str, options: ClientOptions) -> ssl.SSLContext | None:
    """None for a master whose URL is not https://."""
    if not url.startswith("https://"):
        return None
    return client_context(options.authorities, options.certificate, options.key)


def is_cut_off(error: BaseException) -> bool:
    """Whether a TLS connection ended without a reason, as when a master dies: a retry may help."""
    return isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)


def untrusted(url: str, error: ssl.SSLError) -> InvalidOption:
    """A refused TLS handshake. InvalidOption, because no retry and no other master would help."""
    reason = getattr(error, "verify_message", "") or error.reason or str(error)
    return InvalidOption(
        f"the TLS handshake with {url} failed: {reason}; client.ssl.authorities must name the "
        "authorities that sign for the masters; if they ask for a certificate, give it as "
        "client.ssl.certificate and client.ssl.key"
    )
