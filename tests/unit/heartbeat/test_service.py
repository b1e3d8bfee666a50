"""Both sides of heartbeats, on virtual time."""

import asyncio
from typing import Any

import pytest

from builders import virtual
from stoker.core.errors import CallTimedOut, NotFound, RecipientUnreachable
from stoker.heartbeat.monitor import Liveness
from stoker.heartbeat.options import HeartbeatOptions
from stoker.heartbeat.service import NEVER_HEARD, HeartbeatReceiver, HeartbeatSender


def now() -> float:
    return asyncio.get_running_loop().time()


class Recorder:
    """Listeners that record every call with its time."""

    def __init__(self) -> None:
        self.payloads: list[tuple[float, str, str]] = []
        self.losses: list[tuple[float, str, Liveness]] = []

    def payload(self, target: str, payload: str) -> None:
        self.payloads.append((now(), target, payload))

    def lost(self, target: str, liveness: Liveness) -> None:
        self.losses.append((now(), target, liveness))


def make_sender(recorder: Recorder, **options: Any) -> HeartbeatSender[str, str]:
    return HeartbeatSender(
        "sender",
        HeartbeatOptions(**options),
        own_payload=lambda target: f"question for {target}",
        on_payload=recorder.payload,
        on_lost=recorder.lost,
    )


def make_receiver(recorder: Recorder) -> HeartbeatReceiver[str, str]:
    return HeartbeatReceiver(
        "receiver",
        HeartbeatOptions(),
        own_payload=lambda origin: f"answer for {origin}",
        on_payload=recorder.payload,
        on_lost=recorder.lost,
    )


class Peer:
    """A target with prepared answers; the last one is repeated."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[float] = []

    async def __call__(self, payload: str) -> str:
        self.asked.append(now())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def losses_of(peer: Peer) -> list[tuple[float, str, Liveness]]:
    """The losses that a sender reports which monitors `peer` for a long time."""
    recorder = Recorder()
    async with make_sender(recorder) as sender:
        sender.monitor_target("a", peer)
        await asyncio.sleep(1000)
    return recorder.losses


class Silent:
    def __init__(self) -> None:
        self.asked: list[float] = []

    async def __call__(self, payload: str) -> str:
        self.asked.append(now())
        await asyncio.Event().wait()
        return ""


@virtual
async def test_every_target_is_asked_once_per_interval_and_both_sides_receive_payloads() -> None:
    """Every answer restarts the timeouts, so nobody is lost (HB-01, HB-03)."""
    asked, answered = Recorder(), Recorder()
    async with make_sender(asked) as sender, make_receiver(answered) as receiver:

        async def call(payload: str) -> str:
            return receiver.request_arrived("sender", payload)

        receiver.monitor_target("sender")
        sender.monitor_target("a", call)
        sender.monitor_target("b", call)
        await asyncio.sleep(500)
    assert asked.losses == answered.losses == []
    assert [(at, text) for at, target, text in asked.payloads if target == "a"] == [
        (float(at), "answer for sender") for at in range(10, 500, 10)
    ]
    assert {text for _, _, text in answered.payloads} == {"question for a", "question for b"}
    assert {origin for _, origin, _ in answered.payloads} == {"sender"}


@virtual
async def test_a_silent_target_is_lost_once_after_the_timeout() -> None:
    """It is no longer monitored afterwards (HB-02)."""
    recorder, silent = Recorder(), Silent()
    async with make_sender(recorder) as sender:
        sender.monitor_target("a", silent)
        await asyncio.sleep(1000)
        assert sender.targets == ()
    assert recorder.losses == [(50, "a", Liveness.TIMEOUT)]
    assert silent.asked[:4] == [10, 20, 30, 40]


@virtual
async def test_a_receiver_notices_that_its_requests_stopped() -> None:
    """The timeout begins again with each request (HB-02)."""
    recorder = Recorder()
    async with make_receiver(recorder) as receiver:
        receiver.monitor_target("master")
        await asyncio.sleep(30)
        receiver.request_arrived("master", "x")
        await asyncio.sleep(1000)
    assert recorder.losses == [(80, "master", Liveness.TIMEOUT)]


@virtual
async def test_nothing_is_reported_about_a_target_after_its_monitoring_ends() -> None:
    """The monitoring ends just before the timeout (HB-02)."""
    recorder = Recorder()
    async with make_sender(recorder) as sender, make_receiver(recorder) as receiver:
        sender.monitor_target("a", Silent())
        receiver.monitor_target("b")
        await asyncio.sleep(49)
        sender.unmonitor_target("a")
        receiver.unmonitor_target("b")
        receiver.unmonitor_target("never there")
        await asyncio.sleep(1000)
    assert recorder.losses == []


@virtual
async def test_two_unreachable_calls_in_a_row_are_a_loss_without_waiting_for_the_timeout() -> None:
    """The second call finds nobody either (HB-04)."""
    losses = await losses_of(Peer(RecipientUnreachable("gone")))
    assert losses == [(20, "a", Liveness.UNREACHABLE)]


@virtual
async def test_a_success_between_unreachable_calls_restarts_the_count() -> None:
    """The target is never lost, although every second call fails at first (HB-05)."""
    peer = Peer(RecipientUnreachable("gone"), "here", RecipientUnreachable("gone"), "here")
    assert await losses_of(peer) == []


@virtual
async def test_without_a_failure_threshold_only_silence_counts() -> None:
    """Neither calls nor pokes that reach nobody count (HB-05)."""
    recorder = Recorder()
    async with make_sender(recorder, rpc_failure_threshold=-1) as sender:
        sender.monitor_target("a", Peer(RecipientUnreachable("gone")))
        sender.poke("a")
        await asyncio.sleep(1000)
    assert recorder.losses == [(50, "a", Liveness.TIMEOUT)]


@virtual
async def test_a_call_that_times_out_is_silence_and_not_unreachable() -> None:
    """A slow target has the whole timeout (HB-04)."""
    assert await losses_of(Peer(CallTimedOut("slow"))) == [(50, "a", Liveness.TIMEOUT)]


@virtual
async def test_an_unknown_origin_is_not_answered_and_its_payload_not_reported() -> None:
    """It learns that it is not monitored (HB-06)."""
    recorder = Recorder()
    async with make_receiver(recorder) as receiver:
        with pytest.raises(NotFound, match="does not monitor stranger"):
            receiver.request_arrived("stranger", "hello")
    assert recorder.payloads == []


@virtual
async def test_a_poke_finds_a_dead_target_at_once() -> None:
    """Both sides can poke; a target without monitoring is left alone (HB-04)."""
    recorder = Recorder()
    async with make_sender(recorder) as sender, make_receiver(recorder) as receiver:
        sender.monitor_target("a", Peer(RecipientUnreachable("gone")))
        receiver.monitor_target("b", Peer(RecipientUnreachable("gone")))
        sender.poke("a")
        receiver.poke("b")
        receiver.poke("not monitored")
        await asyncio.sleep(1)
    assert recorder.losses == [(0.1, "a", Liveness.UNREACHABLE), (0.1, "b", Liveness.UNREACHABLE)]


@virtual
async def test_a_poke_asks_a_living_target_only_once() -> None:
    recorder, peer = Recorder(), Peer("here")
    async with make_sender(recorder) as sender:
        sender.monitor_target("a", peer)
        sender.poke("a")
        await asyncio.sleep(5)
    assert peer.asked == [0]
    assert recorder.payloads == [(0, "a", "here")]


@virtual
async def test_monitoring_a_target_again_restarts_its_timeout() -> None:
    recorder, second = Recorder(), Peer("second")
    async with make_sender(recorder) as sender:
        sender.monitor_target("a", Silent())
        await asyncio.sleep(45)
        sender.monitor_target("a", second)
        await asyncio.sleep(45)
    assert recorder.losses == []
    assert second.asked == [55, 65, 75, 85]


@virtual
async def test_a_loss_listener_may_monitor_the_same_id_at_once() -> None:
    recorder = Recorder()

    def lost(target: str, liveness: Liveness) -> None:
        recorder.lost(target, liveness)
        sender.unmonitor_target(target)
        sender.monitor_target(target, Peer("here"))

    sender: HeartbeatSender[str, str] = HeartbeatSender(
        "sender",
        HeartbeatOptions(),
        own_payload=lambda _target: "",
        on_payload=recorder.payload,
        on_lost=lost,
    )
    async with sender:
        sender.monitor_target("a", Peer(RecipientUnreachable("gone")))
        await asyncio.sleep(45)
    assert recorder.losses == [(20, "a", Liveness.UNREACHABLE)]
    assert [at for at, _, _ in recorder.payloads] == [30, 40]


@virtual
async def test_the_last_heartbeat_is_known_only_for_monitored_targets() -> None:
    """Any other target counts as never heard (X-HB-01)."""
    recorder = Recorder()
    async with make_receiver(recorder) as receiver:
        receiver.monitor_target("master")
        await asyncio.sleep(7)
        receiver.request_arrived("master", "x")
        await asyncio.sleep(7)
        assert receiver.last_heard("master") == 7
        assert receiver.last_heard("other") == NEVER_HEARD


@virtual
async def test_a_closed_service_monitors_nothing_and_leaves_no_timer() -> None:
    """Later calls to it have no effect (X-HB-02)."""
    recorder = Recorder()
    async with make_sender(recorder) as sender, make_receiver(recorder) as receiver:
        sender.monitor_target("a", Silent())
        receiver.monitor_target("b")
        await asyncio.sleep(15)
    sender.monitor_target("late", Silent())
    receiver.monitor_target("late")
    sender.poke("a")
    with pytest.raises(NotFound):
        receiver.request_arrived("b", "x")
    assert len(asyncio.all_tasks()) == 1
    await asyncio.sleep(1000)
    assert recorder.losses == recorder.payloads == []


@virtual
async def test_an_error_of_a_listener_is_not_swallowed() -> None:
    def broken(_target: str, _payload: str) -> None:
        raise ValueError("broken listener")

    sender: HeartbeatSender[str, str] = HeartbeatSender(
        "sender",
        HeartbeatOptions(),
        own_payload=lambda _target: "",
        on_payload=broken,
        on_lost=Recorder().lost,
    )
    with pytest.raises(ValueError, match="broken listener"):
        async with sender:
            sender.monitor_target("a", Peer("here"))
            await asyncio.sleep(100)
