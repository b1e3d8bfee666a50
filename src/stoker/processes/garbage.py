"""When a process looks for garbage in cycles.

A master with thousands of jobs holds millions of objects that live for long. Looking through all
of them as often as Python does by default takes a third of its time, in pauses that are felt.
Nearly all garbage goes by counting references; what is left can wait.
"""

import gc

THRESHOLDS = (10_000, 10, 10)


def look_seldom_for_garbage() -> None:
    """Once the process is up: what it has loaded by then stays, and is looked at no more."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
