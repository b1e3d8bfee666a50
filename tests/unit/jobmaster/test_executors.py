"""Connections to task executors, and when one of them counts as gone."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import RecipientUnreachable
from stoker.gateways.leases import LeaseOptions
from stoker.heartbeat.monitor import Liveness
from stoker.jobmaster.executors import (
    ExecutorConnections,
    is_proof_of_death,
    wait_before_replacing,
)
from stoker.jobmaster.options import JobMasterOptions


@pytest.mark.parametrize(
    ("address", "liveness", "proof"),
    [
        ("grpc://127.0.0.1:7000/x", Liveness.UNREACHABLE, True),
        ("grpc://localhost:7000/x", Liveness.UNREACHABLE, True),
        ("grpc://[::1]:7000/x", Liveness.UNREACHABLE, True),
        ("mem://executor/x", Liveness.UNREACHABLE, True),
        ("grpc://10.0.0.7:7000/x", Liveness.UNREACHABLE, False),
        ("grpc://127.evil.example:7000/x", Liveness.UNREACHABLE, False),
        ("grpc://127.0.0.1:7000/x", Liveness.TIMEOUT, False),
    ],
)
def test_only_a_connection_refused_on_this_machine_proves_a_death(
    address: str, liveness: Liveness, proof: bool
) -> None:
    assert is_proof_of_death(address, liveness) is proof


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_without_proof_no_attempt_is_replaced_before_its_lease_has_certainly_run_out(
    acknowledged_at: float, later: float
) -> None:
    lease = LeaseOptions()
    now = acknowledged_at + later
    wait = wait_before_replacing(
        proven_dead=False,
        acknowledged_at=acknowledged_at,
        now=now,
        options=JobMasterOptions(),
        lease=lease,
    )
    assert wait >= timedelta(0)
    safe = acknowledged_at + (lease.duration + lease.margin).total_seconds()
    assert now + wait.total_seconds() >= safe - 1e-3


def test_with_proof_of_death_only_the_grace_period_is_waited_for() -> None:
    options = JobMasterOptions()
    assert (
        wait_before_replacing(
            proven_dead=True, acknowledged_at=0, now=0, options=options, lease=LeaseOptions()
        )
        == options.death_grace
    )


class Rpc:
    """Records the addresses to which it connects."""

    def __init__(self) -> None:
        self.connected: list[str] = []
        self.is_cut = False

    async def connect(self, address: str, _gateway: type) -> object:
        self.connected.append(address)
        if self.is_cut:
            raise RecipientUnreachable("nobody is there")
        return object()


async def test_a_task_executor_gets_one_handshake_for_all_jobs():
    rpc: Any = Rpc()
    reached = ExecutorConnections()
    first = await reached.connect(rpc, "mem://a/life-1")
    assert await reached.connect(rpc, "mem://a/life-1") is first
    assert await reached.connect(rpc, "mem://a/life-2") is not first
    assert rpc.connected == ["mem://a/life-1", "mem://a/life-2"]


async def test_a_failed_handshake_is_repeated():
    rpc: Any = Rpc()
    rpc.is_cut = True
    reached = ExecutorConnections()
    with pytest.raises(RecipientUnreachable):
        await reached.connect(rpc, "mem://a/life")
    rpc.is_cut = False
    await reached.connect(rpc, "mem://a/life")
    assert len(rpc.connected) == 2
