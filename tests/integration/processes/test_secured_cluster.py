"""Two masters as real processes, over TLS and with tokens."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from builders import wait_until
from contract.certificates import authority
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import AccessDenied, CoordinatorUnavailable
from stoker.core.ids import Ids
from stoker.ha.open import open_coordinator
from stoker.ha.zookeeper.options import AccessControl, ZooKeeperOptions
from stoker.processes.local.cluster import LocalCluster, probe_options
from stoker.security.audit import AuditQuery, read_audit_files
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of

OURS = authority().material
TEXT = text_of("test", "secret")


def configuration(tokens: Path) -> str:
    files = f"certificate: {OURS.certificate}, key: {OURS.key}, authorities: {OURS.authorities}"
    return f"""
rest.bind-port: '0'
security.rest.tokens: {tokens}
security.ssl.rest: {{enabled: true, {files}}}
security.ssl.internal: {{enabled: true, {files}}}
"""


def test_leader_and_standby_answer_only_clients_with_a_token(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    tokens.add(Token(id="test", name="test", role=Role.READ, sha256=hash_of(TEXT), created_ms=0))
    known = ClientOptions(token=TEXT, authorities=OURS.authorities)
    with LocalCluster(tmp_path / "cluster", tied=True, client=known) as cluster:
        cluster.start(
            masters=2, task_executors=0, configuration=configuration(tmp_path / "tokens.json")
        )
        cluster.wait_until_ready()
        urls = cluster.urls.split(",")
        assert [url.partition(":")[0] for url in urls] == ["https", "https"]
        for url in urls:
            assert BlockingClient(url, probe_options(known)).jobs() == []
            with pytest.raises(AccessDenied, match="requires a token"):
                BlockingClient(url, probe_options(replace(known, token=None))).jobs()


def test_masters_of_one_machine_record_each_change_of_the_tokens_once(tmp_path: Path) -> None:
    """Made while they run, and while none of them did."""
    tokens = TokenFile(tmp_path / "tokens.json")
    tokens.add(Token(id="1", name="ana", role=Role.READ, sha256=hash_of(TEXT), created_ms=0))
    log = tmp_path / "audit.jsonl"
    settings = {
        "rest.bind-port": "0",
        "security.rest.tokens": str(tmp_path / "tokens.json"),
        "security.audit.file": str(log),
    }

    def recorded() -> list[str]:
        entries = read_audit_files([log], AuditQuery()) if log.exists() else []
        return [f"{entry.action} {entry.object}" for entry in reversed(entries)]

    def start(cluster: LocalCluster) -> None:
        cluster.start(masters=2, task_executors=0, configuration=json.dumps(settings))

    with LocalCluster(tmp_path / "cluster", tied=True) as cluster:
        start(cluster)
        wait_until(lambda: recorded() == ["create token ana"], "the token is recorded", 60)
        tokens.add(Token(id="2", name="bob", role=Role.READ, sha256="x", created_ms=0))
        both = ["create token ana", "create token bob"]
        wait_until(lambda: recorded() == both, "the second token is recorded", 60)
    tokens.revoke("ana")
    with LocalCluster(tmp_path / "cluster", tied=True) as cluster:
        start(cluster)
        all_of_them = [*both, "revoke token ana"]
        wait_until(lambda: recorded() == all_of_them, "the end of a token is recorded", 60)
    assert recorded() == all_of_them


async def _leaders(url: str, options: ZooKeeperOptions) -> list[str]:
    session = await open_coordinator(url, ids=Ids(), options=options)
    try:
        return await session.children("leader")
    finally:
        await session.close()


def test_records_in_the_zookeeper_of_a_local_cluster_are_for_its_user_alone(
    tmp_path: Path,
) -> None:
    with LocalCluster(tmp_path / "cluster", tied=True) as cluster:
        state = cluster.start(
            task_executors=0,
            zookeeper=1,
            with_token=True,
            with_acl=True,
            configuration="{rest.bind-port: 0, runner.umask: 022}",
        )
        cluster.wait_until_ready()
        url, directory = state.high_availability, cluster.directory
        assert url is not None
        credential = (directory / "zookeeper" / "credential").read_text()
        assert (directory / "zookeeper" / "credential").stat().st_mode & 0o077 == 0
        for process in state.processes:
            words = Path(f"/proc/{process.pid}/cmdline").read_text()
            assert credential not in words
        stranger = ZooKeeperOptions(connection_timeout=timedelta(seconds=5))
        with pytest.raises(CoordinatorUnavailable, match=r"acl, \.auth"):
            asyncio.run(_leaders(url, stranger))
        own = ZooKeeperOptions(acl=AccessControl.CREATOR, auth=(f"digest:{credential}",))
        assert "dispatcher" in asyncio.run(_leaders(url, own))
        settings = json.loads((directory / "stoker.yml").read_text())
        assert settings["runner.umask"] == "022"
