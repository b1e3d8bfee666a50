"""Certificate authorities whose files exist as long as the test run."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import trustme

from stoker.security.material import TlsMaterial

HOSTS = ("127.0.0.1", "localhost")


@dataclass(frozen=True, kw_only=True)
class Authority:
    directory: TemporaryDirectory[str]
    ca: trustme.CA
    material: TlsMaterial
    """A key and a certificate, signed by this authority, for a process on this machine."""

    @property
    def certificate(self) -> Path:
        assert self.material.authorities is not None
        return self.material.authorities


def of_person(signer: Authority, name: str) -> TlsMaterial:
    """A key and a certificate with this common name, for a client."""
    issued = signer.ca.issue_cert(f"{name}@example.org", common_name=name)
    path = Path(signer.directory.name) / f"{name}.pem"
    issued.private_key_and_cert_chain_pem.write_to_path(str(path))
    path.chmod(0o600)
    return TlsMaterial(certificate=path, key=path, authorities=signer.certificate)


@cache
def authority(name: str = "ours") -> Authority:
    """The authority of this name; authorities of different names do not trust each other."""
    directory: TemporaryDirectory[str] = TemporaryDirectory(prefix=f"authority-{name}-")
    root = Path(directory.name)
    ca = trustme.CA(organization_name=name)
    issued = ca.issue_cert(*HOSTS)
    ca.cert_pem.write_to_path(str(root / "authority.pem"))
    issued.private_key_pem.write_to_path(str(root / "key.pem"))
    (root / "key.pem").chmod(0o600)
    for number, part in enumerate(issued.cert_chain_pems):
        part.write_to_path(str(root / "certificate.pem"), append=number > 0)
    return Authority(
        directory=directory,
        ca=ca,
        material=TlsMaterial(
            certificate=root / "certificate.pem",
            key=root / "key.pem",
            authorities=root / "authority.pem",
        ),
    )
