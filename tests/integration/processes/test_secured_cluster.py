"""Two masters as real processes, over TLS and with tokens."""

from dataclasses import replace
from pathlib import Path

import pytest

from contract.certificates import authority
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import AccessDenied
from stoker.processes.local.cluster import LocalCluster, probe_options
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
        urls = cluster.masters.split(",")
        assert [url.partition(":")[0] for url in urls] == ["https", "https"]
        for url in urls:
            assert BlockingClient(url, probe_options(known)).jobs() == []
            with pytest.raises(AccessDenied, match="requires a token"):
                BlockingClient(url, probe_options(replace(known, token=None))).jobs()
