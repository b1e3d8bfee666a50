"""Finds the leading dispatcher for each request."""

from datetime import timedelta

from stoker.core.errors import NoLeader
from stoker.gateways.dispatcher import DispatcherGateway
from stoker.ha.publication import LeaderAddress
from stoker.ha.retrieval import LeaderRetrieval
from stoker.rpc.service import RpcService


class DispatcherFinder:
    """Returns the gateway to the leading dispatcher, and reuses it as long as that one leads."""

    def __init__(self, rpc: RpcService, retrieval: LeaderRetrieval, *, timeout: timedelta) -> None:
        self._rpc = rpc
        self._retrieval = retrieval
        self._timeout = timeout
        self._known: tuple[LeaderAddress, DispatcherGateway] | None = None

    async def __call__(self) -> DispatcherGateway:
        leader = self._retrieval.leader
        if leader is None:
            raise NoLeader("no dispatcher leads at the moment; try again shortly")
        if self._known is None or self._known[0] != leader:
            gateway = await self._rpc.connect(
                leader.address, DispatcherGateway, token=leader.token, timeout=self._timeout
            )
            self._known = (leader, gateway)
        return self._known[1]
