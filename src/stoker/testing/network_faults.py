"""A network that delays, reorders and loses messages at random, and counts them."""

import random
from dataclasses import dataclass, field


@dataclass
class RandomFaults:
    """No faults by default. Each message has its own delay, so messages overtake each other."""

    random: random.Random
    usual_delay: float = 0.0
    """Longest delay of a usual message, in seconds."""
    long_delay: float = 0.0
    long_share: float = 0.0
    """The share of messages that take up to `long_delay` instead."""
    lost_share: float = 0.0
    messages: int = field(default=0, init=False)

    def delay(self, source: str, destination: str) -> float | None:
        self.messages += 1
        chance = self.random.random()
        if chance < self.lost_share:
            return None
        if chance < self.lost_share + self.long_share:
            return self.random.uniform(0, self.long_delay)
        return self.random.uniform(0, self.usual_delay) if self.usual_delay else 0.0

    def calm_down(self) -> None:
        self.usual_delay = self.long_share = self.lost_share = 0.0
