"""Whether a pipeline is being written in a notebook or at a prompt, where code runs again."""

import sys


def is_typed_in() -> bool:
    """Whether the code that calls the authoring API comes from a prompt or a notebook's cell.

    A file that such code loads is still a file.
    """
    if not hasattr(sys, "ps1"):
        # Python and IPython have a prompt only in an interactive session.
        return False
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("stoker."):
        frame = frame.f_back
    return "__file__" not in frame.f_globals
