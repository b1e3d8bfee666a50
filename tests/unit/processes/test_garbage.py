"""When a process looks for garbage in cycles; tried in another one, whose interpreter it is."""

import subprocess
import sys

LOOK = """
import gc
from stoker.processes.garbage import look_seldom_for_garbage
look_seldom_for_garbage()
print(gc.get_freeze_count() > 1000, *gc.get_threshold())
class Knot: pass
for _ in range(30_000):
    knot = Knot(); knot.itself = knot
print(sum(isinstance(each, Knot) for each in gc.get_objects()) < 30_000)
"""


def test_what_is_loaded_is_looked_at_no_more_and_new_garbage_still_goes() -> None:
    looked = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, check=True
    )
    assert looked.stdout.splitlines() == ["True 10000 10 10", "True"]
