"""Times and numbers as text."""

from datetime import datetime

from stoker.core.values import Millis


def duration_text(milliseconds: int) -> str:
    """`0.8 s`, `12.3 s`, `3 min 05 s`, `2 h 07 min`, `3 d 04 h`."""
    seconds = max(0, milliseconds) / 1000
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours:02} h"


def moment_text(at: Millis) -> str:
    """In the time of this machine."""
    return datetime.fromtimestamp(at / 1000).strftime("%Y-%m-%d %H:%M:%S")
