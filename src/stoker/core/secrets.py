"""Which settings are secret: decided by their names, by one rule for the whole of Stoker.

With two rules a value could be hidden in one place and shown in another.
"""

import re

MASK = "******"

SURELY_SECRET = re.compile(
    r"(?i)pass(?:w|phrase)|pwd|secret(?!ar)|token(?!i[sz])|credential"
    r"|(?<![a-z])(?:pass|pw)(?![a-z])|(?:admin|db|key|login|root|sql|store|user)pass"
    r"|(?:access|account|api|encryption|private|shared|signing|ssh)[^a-z]?key"
)
"""Names so clear that their values may also be searched for in texts; `sort-key` is not one.

Each alternative has a bounded length, so a search takes time in proportion to the text.
"""
_LIKELY_SECRET = re.compile(
    # The word key, but not as a part of another word such as monkey or keywords.
    r"(?:^|[^A-Za-z])(?i:keys?)(?:$|[^A-Za-z])|[a-z]Keys?(?:$|[^a-z])"
    r"|[a-z]Pass(?:$|[^a-z])"
    r"|(?i:authorization$)|(?:^|[^A-Za-z])(?i:auth)$|[a-z]Auth$"
)


def is_secret(name: str) -> bool:
    """Whether the value of a setting with this name is never shown."""
    return SURELY_SECRET.search(name) is not None or _LIKELY_SECRET.search(name) is not None
