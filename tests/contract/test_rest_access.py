"""Both clients against servers that require a token, TLS, or a client certificate."""

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from contract.certificates import authority, of_person
from contract.test_rest_clients import QUICK, client
from stoker.client.options import ClientOptions
from stoker.core.errors import AccessDenied, InvalidInput, InvalidOption, Unavailable
from stoker.core.states import JobStatus
from stoker.rest.options import RestOptions
from stoker.security.material import client_context, common_name_of
from stoker.security.options import RestSecurityOptions
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import NEW, RUNNING, new_graph

OURS = authority().material
TRUSTING = replace(QUICK, authorities=OURS.authorities)


@pytest.fixture(params=["blocking", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    file = TokenFile(tmp_path / "tokens.json")
    for role in Role:
        text = text_of(role.value, "secret")
        made = Token(id=role.value, name=role.value, role=role, sha256=hash_of(text), created_ms=0)
        file.add(made)
    return file


def with_token_of(role: Role, options: ClientOptions = QUICK) -> ClientOptions:
    return replace(options, token=text_of(role.value, "secret"))


async def test_a_token_permits_what_its_role_allows(kind: str, tokens: TokenFile) -> None:
    async with Master(tokens=tokens).serving() as url:
        async with client(kind, url) as anonymous:
            with pytest.raises(AccessDenied, match="requires a token"):
                await anonymous.jobs()
        async with client(kind, url, with_token_of(Role.READ)) as reader:
            assert await reader.status(RUNNING) is JobStatus.RUNNING
            with pytest.raises(AccessDenied, match="has the role read"):
                await reader.cancel(RUNNING)
        async with client(kind, url, with_token_of(Role.OPERATE)) as operator:
            await operator.cancel(RUNNING)


async def test_a_revoked_token_is_refused_at_once(kind: str, tokens: TokenFile) -> None:
    async with (
        Master(tokens=tokens).serving() as url,
        client(kind, url, with_token_of(Role.READ)) as reader,
    ):
        await reader.jobs()
        tokens.revoke("read")
        with pytest.raises(AccessDenied, match="revoked"):
            await reader.jobs()


async def test_a_standby_forwards_the_token(kind: str, tokens: TokenFile) -> None:
    async with (
        Master(tokens=tokens, tls=OURS).serving() as leader,
        Master(tokens=tokens, tls=OURS, leading=False, leader=leader).serving() as standby,
        client(kind, standby, with_token_of(Role.READ, TRUSTING)) as reader,
    ):
        assert await reader.status(RUNNING) is JobStatus.RUNNING
        with pytest.raises(AccessDenied):
            await reader.cancel(RUNNING)


async def test_a_server_that_other_machines_can_reach_needs_tokens(tokens: TokenFile) -> None:
    options = RestOptions(bind_address="0.0.0.0", bind_port="0")
    with pytest.raises(InvalidOption, match=r"rest\.bind-address 0\.0\.0\.0 can be reached"):
        async with Master(options=options).serving():
            pass
    with pytest.raises(InvalidOption, match=r"set rest\.address to the name or address"):
        async with Master(options=options, tokens=tokens).serving():
            pass
    named = replace(options, address="stoker.example.org")
    async with Master(options=named, tokens=tokens).serving() as url:
        assert url.startswith("http://stoker.example.org:")


async def test_calls_over_tls_are_answered(kind: str) -> None:
    async with Master(tls=OURS).serving() as url, client(kind, url, TRUSTING) as stoker:
        assert url.startswith("https://")
        assert await stoker.status(RUNNING) is JobStatus.RUNNING


async def test_a_server_certificate_of_a_foreign_authority_is_not_trusted(kind: str) -> None:
    foreign = authority("foreign").material
    async with Master(tls=foreign).serving() as url, client(kind, url, TRUSTING) as stoker:
        with pytest.raises(InvalidOption, match=r"TLS handshake .* client\.ssl\.authorities"):
            await stoker.jobs()


async def test_plain_http_to_a_tls_server_is_told_the_right_address(kind: str) -> None:
    async with Master(tls=OURS).serving() as url:
        clear = url.replace("https://", "http://")
        async with client(kind, clear, TRUSTING) as stoker:
            with pytest.raises(InvalidInput, match=f"this port speaks TLS: use {url}"):
                await stoker.jobs()


async def test_a_client_certificate_is_required_and_checked(kind: str) -> None:
    async with Master(tls=OURS, asks_for_certificates=True).serving() as url:
        known = replace(TRUSTING, certificate=OURS.certificate, key=OURS.key)
        async with client(kind, url, known) as stoker:
            assert await stoker.status(RUNNING) is JobStatus.RUNNING
        stranger = authority("foreign").material
        for options in (
            TRUSTING,
            replace(TRUSTING, certificate=stranger.certificate, key=stranger.key),
        ):
            async with client(kind, url, options) as refused:
                with pytest.raises((InvalidOption, Unavailable)):
                    await refused.jobs()


def with_certificate_of(name: str, token: str | None = None) -> ClientOptions:
    own = of_person(authority(), name)
    return replace(TRUSTING, certificate=own.certificate, key=own.key, token=token)


ROLES = {"ana": Role.SUBMIT, "op": Role.OPERATE}


async def test_the_holder_of_a_certificate_has_the_role_and_the_name_that_belong_to_it(
    kind: str,
) -> None:
    master = Master(tls=OURS, asks_for_certificates=True, roles_of_certificates=ROLES)
    async with (
        master.serving() as url,
        client(kind, url, with_certificate_of("ana")) as ana,
        client(kind, url, with_certificate_of("op")) as operator,
        client(kind, url, with_certificate_of("eve")) as stranger,
    ):
        await ana.submit(new_graph())
        assert master.dispatcher.jobs[NEW].owner == "ana"
        with pytest.raises(AccessDenied, match=r"belongs to an unknown owner; .* ana has the role"):
            await ana.cancel(RUNNING)
        with pytest.raises(AccessDenied, match="the certificate ana has the role submit"):
            await ana.task_executors()
        await operator.cancel(RUNNING)
        with pytest.raises(AccessDenied, match=r"'eve' is not among .* security\.ssl\.rest\.ident"):
            await stranger.jobs()


async def test_a_standby_forwards_the_name_of_the_certificate(kind: str) -> None:
    """It shows the leader a certificate of its own, and proves that it is a master."""
    fields = {"tls": OURS, "asks_for_certificates": True, "proof": "known to masters"}
    leading = Master(**fields, roles_of_certificates=ROLES)
    async with leading.serving() as leader:
        standby = Master(**fields, roles_of_certificates=ROLES, leading=False, leader=leader)
        async with standby.serving() as url, client(kind, url, with_certificate_of("ana")) as ana:
            await ana.submit(new_graph())
        assert leading.dispatcher.jobs[NEW].owner == "ana"


async def test_nobody_but_a_master_names_another_certificate() -> None:
    master = Master(
        tls=OURS, asks_for_certificates=True, roles_of_certificates=ROLES, proof="secret"
    )
    own = of_person(authority(), "ana")
    context = client_context(OURS.authorities, own.certificate, own.key)
    claims = {"x-stoker-forwarded": "127.0.0.1", "x-stoker-certificate": "op"}
    async with master.serving() as url, httpx.AsyncClient(base_url=url, verify=context) as http:
        for proof in ({}, {"x-stoker-forwarding-proof": "wrong"}):
            answer = await http.get("/taskmanagers", headers=claims | proof)
            assert answer.status_code == 403
            assert "the certificate ana" in answer.text
        proven = claims | {"x-stoker-forwarding-proof": "secret"}
        assert (await http.get("/taskmanagers", headers=proven)).status_code == 200


async def test_a_token_beside_a_certificate_decides(kind: str, tokens: TokenFile) -> None:
    """Without one, the certificate does; a certificate that nobody knows needs a token."""
    master = Master(
        tls=OURS, asks_for_certificates=True, roles_of_certificates=ROLES, tokens=tokens
    )
    async with master.serving() as url:
        as_reader = with_certificate_of("op", token=text_of("read", "secret"))
        async with client(kind, url, as_reader) as reader:
            with pytest.raises(AccessDenied, match="the token read has the role read"):
                await reader.cancel(RUNNING)
        async with client(kind, url, with_certificate_of("op")) as operator:
            await operator.cancel(RUNNING)
        async with client(kind, url, with_certificate_of("eve")) as stranger:
            with pytest.raises(AccessDenied, match="requires a token"):
                await stranger.jobs()


def test_identities_need_certificates_and_roles() -> None:
    with pytest.raises(InvalidOption, match=r"needs security\.ssl\.rest\.authentication-enabled"):
        RestSecurityOptions(identities={"ana": "submit"})
    with pytest.raises(InvalidOption, match="gives ana the role 'admin'; write one of read,"):
        RestSecurityOptions(identities={"ana": "admin"}, mutual=True)


def test_a_certificate_with_several_common_names_has_none() -> None:
    named = {"subject": ((("commonName", "ana"),), (("organizationName", "x"),))}
    both = {"subject": ((("commonName", "ana"),), (("commonName", "op"),))}
    assert [common_name_of(each) for each in (named, both, {}, None)] == ["ana", None, None, None]
