"""Delays of the services that all processes of a simulation share."""

import asyncio
import random
from dataclasses import dataclass


@dataclass
class Slowness:
    """No delay by default."""

    random: random.Random
    seconds: float = 0.0
    """Longest delay of an operation, in seconds."""

    def next_delay(self) -> float:
        return self.random.uniform(0, self.seconds) if self.seconds else 0.0

    async def wait(self) -> None:
        if self.seconds:
            await asyncio.sleep(self.next_delay())
