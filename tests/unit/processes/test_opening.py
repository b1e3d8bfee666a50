"""What a process opens at its start."""

import os
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.config.configuration import Configuration
from stoker.config.load import configuration_from
from stoker.config.options import ALL
from stoker.config.processes import MasterOptions
from stoker.config.sources import settings_on_command_line
from stoker.config.tree import OptionTree
from stoker.core.errors import InvalidOption, StartupFailed
from stoker.core.ids import Ids
from stoker.metrics.registry import unread_metrics
from stoker.processes.opening import (
    check_coordinator_access,
    may_forward_to,
    open_first_session,
    open_process_resources,
    token_file,
)
from stoker.rest.http.access import Access, Requester
from stoker.security.options import RestSecurityOptions
from stoker.security.tokens import Role, Token, TokenFile, hash_of


async def test_a_coordinator_that_does_not_answer_stops_the_start_with_its_address() -> None:
    configuration = configuration_from(
        OptionTree(ALL),
        settings_on_command_line(
            [
                "high-availability=zookeeper://127.0.0.1:1/stoker",
                "high-availability.zookeeper.client.connection-timeout=1 s",
            ]
        ),
    )
    with pytest.raises(StartupFailed, match=r"zookeeper://127\.0\.0\.1:1/stoker cannot be reached"):
        await open_first_session(configuration, Ids(), auto_renewing=True, metrics=unread_metrics())


async def test_a_process_that_listens_on_all_interfaces_needs_an_address_to_publish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told before anything is created, and which option to set."""
    monkeypatch.setattr("stoker.processes.opening.rpc_credentials", lambda *_: None)
    configuration = configuration_from(
        OptionTree(ALL), settings_on_command_line([f"process.working-dir={tmp_path / 'work'}"])
    )
    options = replace(configuration.of(MasterOptions), bind_host="0.0.0.0")
    async with AsyncExitStack() as stack:
        with pytest.raises(InvalidOption, match=r"set jobmanager\.rpc\.address to the name"):
            await open_process_resources(
                stack,
                configuration,
                options,
                ids=Ids(),
                kind="master",
                bind_host_key="jobmanager.bind-host",
                host_key="jobmanager.rpc.address",
                is_over=lambda: False,
            )
    assert not (tmp_path / "work").exists()


def configuration_of(**settings: str) -> Configuration:
    lines = [f"{key.replace('__', '.').replace('_', '-')}={text}" for key, text in settings.items()]
    return configuration_from(OptionTree(ALL), settings_on_command_line(lines))


ELSEWHERE = "zookeeper://zk1:2181,127.0.0.1:2181/stoker"
CLIENT = "high_availability__zookeeper__client"


def test_an_open_zookeeper_on_another_machine_is_refused() -> None:
    """Whoever can write there commands the cluster."""
    with pytest.raises(InvalidOption, match=r"zk1:2181.*could command.*client\.acl: creator"):
        check_coordinator_access(configuration_of(high_availability=ELSEWHERE))


@pytest.mark.parametrize(
    "settings",
    [
        {f"{CLIENT}__acl": "creator", f"{CLIENT}__auth": "digest:stoker:x"},
        {f"{CLIENT}__tls__enabled": "true", f"{CLIENT}__tls__certificate_file": "/c.pem"},
        {"security__ssl__internal__enabled": "true"},
    ],
)
def test_a_zookeeper_that_asks_who_writes_is_accepted(settings: dict[str, str]) -> None:
    check_coordinator_access(configuration_of(high_availability=ELSEWHERE, **settings))


def test_an_open_zookeeper_on_this_machine_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    here = "zookeeper://127.0.0.1:2181,localhost:2182,[::1]:2183/stoker"
    check_coordinator_access(configuration_of(high_availability=here))
    assert "every user of this machine can change the records" in caplog.text


def test_requests_are_forwarded_to_another_machine_over_tls_only() -> None:
    """They carry the tokens of clients, and the address comes from the coordinator."""
    plain, tls = RestSecurityOptions(), RestSecurityOptions(tls=True)
    proxied = RestSecurityOptions(allow_plain_tokens=True)
    for url in ("http://10.0.0.7:8081", "http://elsewhere.example:8081", "http://"):
        assert not may_forward_to(plain, url)
        assert may_forward_to(tls, url)
        assert may_forward_to(proxied, url)
    assert may_forward_to(plain, "http://127.0.0.1:8082")
    assert may_forward_to(plain, "http://[::1]:8082")


def test_a_token_file_that_others_can_use_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text("{}")
    path.chmod(0o646)
    with pytest.raises(InvalidOption, match=rf"security\.rest\.tokens.*chmod o= {path}"):
        token_file(RestSecurityOptions(tokens=path))
    path.chmod(0o640)
    assert token_file(RestSecurityOptions(tokens=path)) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can become another user")
def test_a_file_that_the_masters_cannot_read_is_named_with_the_remedy(tmp_path: Path) -> None:
    """Requests are answered with 503, and a master does not start."""
    path = tmp_path / "tokens.json"
    sha256 = hash_of("stk_a_secret")
    TokenFile(path).add(Token(id="a", name="a", role=Role.READ, sha256=sha256, created_ms=0))
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    with as_user(65534):
        with pytest.raises(InvalidOption, match=r"Permission denied; .*chown USER"):
            _ = TokenFile(path).tokens
        with pytest.raises(InvalidOption, match=r"another user|Permission denied"):
            token_file(RestSecurityOptions(tokens=path))
        refused = Access(TokenFile(path), lambda: 0).identify("Bearer stk_a_secret")
        assert not isinstance(refused, Requester)
        assert refused.status == 503
        assert "chown USER" in refused.messages[0]


@contextmanager
def as_user(uid: int) -> Iterator[None]:
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
