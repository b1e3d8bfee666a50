"""How the processes of a cluster prove who they are, as the configuration says."""

import ssl

from stoker.config.configuration import Configuration
from stoker.rpc.grpc_transport import GrpcCredentials, credentials_from
from stoker.security.binding import check_binding
from stoker.security.material import client_context, internal_material
from stoker.security.options import InternalSecurityOptions, RestSecurityOptions
from stoker.security.tokens import TokenFile


def rpc_credentials(configuration: Configuration, host: str, key: str) -> GrpcCredentials | None:
    """InvalidOption when others could call without proving who they are."""
    material = internal_material(configuration.of(InternalSecurityOptions))
    check_binding(host, key, authenticated=material is not None)
    return credentials_from(material)


def token_file(options: RestSecurityOptions) -> TokenFile | None:
    """Read once here, so that a damaged file is told at the start."""
    if options.tokens is None:
        return None
    file = TokenFile(options.tokens.expanduser())
    _ = file.tokens
    return file


def trust_among_masters(options: RestSecurityOptions) -> ssl.SSLContext | None:
    """How a standby calls the leader."""
    if not options.tls:
        return None
    return client_context(options.authorities, options.certificate, options.key)
