"""What a job asks of the cluster, when the command says it instead of the job."""

import functools
from collections.abc import Callable
from typing import Any

import click

from stoker.pipeline.demands import GivenDemands


def demand_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds queue, priority, slots and what a slot must offer, as `demands`."""

    @click.option("--queue", metavar="NAME", help="Queue in which the job waits for its turn.")
    @click.option("--priority", metavar="N", type=int, help="Higher ones go first; 0 without it.")
    @click.option("--slots", metavar="N", type=int, help="Most slots that it uses at once.")
    @click.option("--cores", metavar="N", type=float, help="What each of its slots must offer.")
    @click.option(
        "--memory", metavar="SIZE", help="What each of its slots must offer, such as 2gb."
    )
    @functools.wraps(command)
    def with_demands(
        *args: Any,
        queue: str | None,
        priority: int | None,
        slots: int | None,
        cores: float | None,
        memory: str | None,
        **kwargs: Any,
    ) -> Any:
        offered = {"cores": cores, "memory": memory}
        demands = GivenDemands(
            queue=queue,
            priority=priority,
            slots=slots,
            resources={key: value for key, value in offered.items() if value is not None} or None,
        )
        return command(*args, demands=demands, **kwargs)

    return with_demands
