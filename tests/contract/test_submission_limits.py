"""Limits of tokens, from the clients through REST to a real dispatcher, and through a fail-over."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

from contract.test_rest_clients import QUICK, client
from stoker.client.options import ClientOptions
from stoker.core.errors import AccessDenied, LimitReached
from stoker.gateways.dispatcher import DispatcherGateway
from stoker.security.submission_limits import SubmissionLimits
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of
from stoker.testing.rest import Master
from unit.dispatcher.dispatching import World, new_world


@pytest.fixture(params=["blocking", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@dataclass(kw_only=True)
class MasterOfWorld(Master):
    """A REST server in front of the dispatcher that leads at the moment."""

    world: World

    async def find_dispatcher(self) -> DispatcherGateway:
        return await self.world.dispatcher()


async def leading(world: World) -> None:
    async with asyncio.timeout(30):
        while await world.published() is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def token_file(path: Path, limits: SubmissionLimits) -> TokenFile:
    file = TokenFile(path / "tokens.json")
    for name, of_token in (("ana", limits), ("bob", SubmissionLimits())):
        sha256 = hash_of(text_of(name, "secret"))
        made = Token(
            id=name, name=name, role=Role.SUBMIT, sha256=sha256, created_ms=0, limits=of_token
        )
        file.add(made)
    return file


def with_token_of(name: str) -> ClientOptions:
    return replace(QUICK, token=text_of(name, "secret"))


async def test_a_token_is_held_to_its_limits_also_after_a_fail_over(
    kind: str, tmp_path: Path
) -> None:
    tokens = token_file(tmp_path, SubmissionLimits(queues=("default",), max_jobs=1))
    async with new_world() as world:
        first = world.master()
        await leading(world)
        master = MasterOfWorld(
            world=world,
            tokens=tokens,
            submission_limits={Role.SUBMIT: SubmissionLimits(max_priority=0)},
        )
        async with (
            master.serving() as url,
            client(kind, url, with_token_of("ana")) as ana,
            client(kind, url, with_token_of("bob")) as bob,
        ):
            elsewhere = msgspec.structs.replace(world.graph(), queue="adhoc")
            with pytest.raises(AccessDenied, match="stoker token limit ana --queue adhoc"):
                await ana.submit(elsewhere)
            urgent = msgspec.structs.replace(world.graph(), priority=5)
            # The limit of the role.
            with pytest.raises(AccessDenied, match="priorities up to 0, and the job has 5"):
                await bob.submit(urgent)
            await ana.submit(world.graph("first"))
            # At once: waiting alone does not help.
            with pytest.raises(LimitReached, match="its limit is 1; wait until one has ended"):
                await ana.submit(world.graph("second"))
            await bob.submit(world.graph("of bob"))
            await first.stop()
            world.master()
            await leading(world)
            with pytest.raises(LimitReached, match="has 1 jobs that have not ended"):
                await ana.submit(world.graph("second"))
            # A change of the file takes effect at once.
            tokens.limit("ana", SubmissionLimits(max_jobs=2).or_else)
            await ana.submit(world.graph("second"))
