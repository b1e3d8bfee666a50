import asyncio
import contextlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import CallTimedOut, RecipientUnreachable
from stoker.rpc.options import RegistrationOptions
from stoker.rpc.registration import (
    RegistrationVerdict,
    after_error,
    after_refusal,
    after_timeout,
    first_attempt,
    register,
)
from stoker.testing.virtual_time import run_virtual

OPTIONS = RegistrationOptions()


@given(st.lists(st.sampled_from(["timeout", "error", "refusal"]), max_size=40))
def test_the_timeout_doubles_up_to_a_maximum_and_starts_again(events):
    """After a refusal or an error the timeout starts again (RPC-13, RPC-14, RPC-15)."""
    attempt, timeouts_in_a_row = first_attempt(OPTIONS), 0
    for event in events:
        match event:
            case "timeout":
                attempt, timeouts_in_a_row = after_timeout(attempt, OPTIONS), timeouts_in_a_row + 1
                assert attempt.pause == timedelta(0)
            case "error":
                attempt, timeouts_in_a_row = after_error(OPTIONS), 0
                assert (attempt.pause, attempt.reconnect) == (timedelta(seconds=10), True)
            case "refusal":
                attempt, timeouts_in_a_row = after_refusal(OPTIONS), 0
                assert (attempt.pause, attempt.reconnect) == (timedelta(seconds=30), False)
        doubled = timedelta(milliseconds=100) * 2**timeouts_in_a_row
        assert attempt.timeout == min(doubled, timedelta(seconds=30))


class Registrar:
    """Answers according to a script; requests after the end of the script are accepted."""

    def __init__(self, *script):
        self.script = list(script)
        self.asked = []
        self.connected = []

    def now(self):
        return round(asyncio.get_running_loop().time(), 6)

    async def connect(self):
        self.connected.append(self.now())
        if self.script and self.script[0] == "unreachable":
            self.script.pop(0)
            raise RecipientUnreachable("nobody")
        return self

    async def ask(self, gateway):
        assert gateway is self
        self.asked.append(self.now())
        answer = self.script.pop(0) if self.script else "accepted"
        if answer == "silent":
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def register(self, **more):
        return await register(self.connect, self.ask, answer_attempt, options=OPTIONS, **more)


def answer_attempt(answer):
    return RegistrationVerdict[answer.upper()]


def test_an_attempt_that_times_out_is_repeated_with_twice_the_time():
    """The timeout grows up to its maximum (RPC-13)."""
    registrar = Registrar(*["silent"] * 11)
    assert run_virtual(registrar.register) == "accepted"
    gaps = [b - a for a, b in zip(registrar.asked, registrar.asked[1:], strict=False)]
    assert gaps == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30])
    assert registrar.connected == [0]


def test_a_timeout_raised_by_the_call_counts_as_a_timeout():
    """The attempt is repeated at once, with a longer timeout (RPC-13)."""
    registrar = Registrar(CallTimedOut("late"))
    run_virtual(registrar.register)
    assert registrar.asked == [0, 0]


def test_an_unreachable_target_and_an_error_are_tried_again_after_the_error_delay():
    """They are not tried again at once, since the target may be starting (RPC-14)."""
    registrar = Registrar("unreachable", "unreachable", ValueError("no"))
    reported = []
    run_virtual(lambda: registrar.register(tell=lambda attempt, why: reported.append(type(why))))
    assert registrar.connected == [0, 10, 20, 30]
    assert registrar.asked == [20, 30]
    assert reported == [RecipientUnreachable, RecipientUnreachable, ValueError]


def test_a_refusal_is_repeated_after_its_delay_and_a_rejection_ends_the_registration():
    """A refusal is temporary, a rejection is final (RPC-15)."""
    registrar = Registrar("refused", "rejected", "accepted")
    assert run_virtual(registrar.register) == "rejected"
    assert registrar.asked == [0, 30]


def test_no_request_is_sent_after_cancellation():
    """A cancelled registration leaves its target alone (X-RPC-09)."""
    registrar = Registrar(*["silent"] * 100)

    async def main():
        registering = asyncio.create_task(registrar.register())
        await asyncio.sleep(1)
        registering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await registering
        before = len(registrar.asked)
        await asyncio.sleep(1000)
        assert len(registrar.asked) == before == 4

    run_virtual(main)
