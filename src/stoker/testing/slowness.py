"""How long the things that all processes of a simulation share take to answer."""

import asyncio
import random
from dataclasses import dataclass


@dataclass
class Slowness:
    """None until told otherwise."""

    random: random.Random
    seconds: float = 0.0
    """Each operation takes up to this long."""

    def next_delay(self) -> float:
        return self.random.uniform(0, self.seconds) if self.seconds else 0.0

    async def wait(self) -> None:
        if self.seconds:
            await asyncio.sleep(self.next_delay())
