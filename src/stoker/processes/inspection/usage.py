"""The processors of this machine, and what the threads of this process do at the moment."""

import os
import sys
import threading
import traceback


def cores() -> int:
    return os.cpu_count() or 1


def thread_stacks() -> dict[str, str]:
    """Stacks by thread name; the innermost call comes last, as in a traceback."""
    threads = {thread.ident: thread for thread in threading.enumerate()}
    stacks: dict[str, str] = {}
    for ident, frame in sys._current_frames().items():
        thread = threads.get(ident)
        name = thread.name if thread else f"thread-{ident}"
        if name in stacks:
            name = f"{name}-{ident}"
        kind = " daemon" if thread is not None and thread.daemon else ""
        # Lines of code only: values of variables may be secrets.
        trace = "".join(traceback.format_stack(frame))
        stacks[name] = f'"{name}"{kind} Id={ident}\n{trace}'
    return stacks
