"""Certificates and keys are checked before anything listens."""

from dataclasses import replace
from pathlib import Path

import pytest

from contract.certificates import authority
from stoker.core.errors import InvalidOption
from stoker.security.material import client_context, internal_material, rest_material
from stoker.security.options import InternalSecurityOptions, RestSecurityOptions

OURS = authority().material
REST = RestSecurityOptions(
    tls=True, certificate=OURS.certificate, key=OURS.key, authorities=OURS.authorities
)
INTERNAL = InternalSecurityOptions(
    tls=True, certificate=OURS.certificate, key=OURS.key, authorities=OURS.authorities
)


def test_configured_files_are_used() -> None:
    assert rest_material(REST) == OURS
    assert internal_material(INTERNAL) == OURS


def test_without_tls_no_files_are_needed() -> None:
    assert rest_material(RestSecurityOptions()) is None
    assert internal_material(InternalSecurityOptions()) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"certificate": None}, r"security\.ssl\.rest\.certificate is not set, but"),
        ({"key": None}, r"security\.ssl\.rest\.key is not set, but"),
        ({"key": Path("/nowhere/key.pem")}, "there is no file /nowhere/key.pem"),
        ({"key": authority("foreign").material.key}, "do not fit together"),
        ({"authorities": None, "mutual": True}, r"authorities is not set, but .*authentication"),
        ({"tls": False, "mutual": True}, r"needs security\.ssl\.rest\.enabled"),
    ],
)
def test_unusable_tls_settings_are_refused_at_the_start(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidOption, match=message):
        rest_material(replace(REST, **changes))  # type: ignore[arg-type]


def test_tls_between_processes_needs_certificate_authorities_of_its_own() -> None:
    with pytest.raises(InvalidOption, match=r"internal\.authorities is not set"):
        internal_material(replace(INTERNAL, authorities=None))


def test_an_unusable_file_of_a_client_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    with pytest.raises(InvalidOption, match=r"empty\.pem"):
        client_context(tmp_path / "empty.pem", None, None)


def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    assert OURS.key is not None
    key = tmp_path / "key.pem"
    key.write_bytes(OURS.key.read_bytes())
    key.chmod(0o644)
    with pytest.raises(InvalidOption, match=rf"security\.ssl\.rest\.key.*chmod o= {key}"):
        rest_material(replace(REST, key=key))
    key.chmod(0o640)
    assert rest_material(replace(REST, key=key)) is not None
