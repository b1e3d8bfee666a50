"""Mutual TLS: each process proves to each other that it belongs to the cluster."""

import grpc

from stoker.rpc.grpc_transport import GrpcCredentials
from stoker.security.material import TlsMaterial


def credentials_from(material: TlsMaterial | None) -> GrpcCredentials | None:
    """None where processes speak in clear."""
    if material is None:
        return None
    key, certificate, authorities = material.read()
    return GrpcCredentials(
        server=grpc.ssl_server_credentials(
            [(key, certificate)], root_certificates=authorities, require_client_auth=True
        ),
        channel=grpc.ssl_channel_credentials(
            root_certificates=authorities, private_key=key, certificate_chain=certificate
        ),
    )
