"""Certificates of an authority that lives as long as a test run."""

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
    material: TlsMaterial
    """For a process on this machine, signed by this authority."""

    @property
    def certificate(self) -> Path:
        assert self.material.authorities is not None
        return self.material.authorities


@cache
def authority(name: str = "ours") -> Authority:
    """Two names are two authorities, which do not know each other."""
    directory: TemporaryDirectory[str] = TemporaryDirectory(prefix=f"authority-{name}-")
    root = Path(directory.name)
    ca = trustme.CA(organization_name=name)
    issued = ca.issue_cert(*HOSTS)
    ca.cert_pem.write_to_path(str(root / "authority.pem"))
    issued.private_key_pem.write_to_path(str(root / "key.pem"))
    for number, part in enumerate(issued.cert_chain_pems):
        part.write_to_path(str(root / "certificate.pem"), append=number > 0)
    return Authority(
        directory=directory,
        material=TlsMaterial(
            certificate=root / "certificate.pem",
            key=root / "key.pem",
            authorities=root / "authority.pem",
        ),
    )
