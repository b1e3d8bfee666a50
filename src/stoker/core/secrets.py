"""Which settings are secret: decided by their names, by one rule for the whole of Stoker.

With two rules a value could be hidden in one place and shown in another.
"""

import re

MASK = "******"

SURELY_SECRET = re.compile(
    r"(?i)pass(?:w|phrase)|pwd|secret|token|credential"
    r"|(?:access|account|api|encryption|private|shared|signing|ssh).?key"
)
"""Names so clear that their values may also be searched for in texts; `sort-key` is not one."""
_KEY = re.compile(r"(?:^|[^A-Za-z])(?i:keys?)(?:$|[^A-Za-z])|[a-z]Keys?(?:$|[^a-z])")
"""The word key, but not as a part of another word such as monkey or keywords."""


def is_secret(name: str) -> bool:
    """Whether the value of a setting with this name is never shown."""
    return SURELY_SECRET.search(name) is not None or _KEY.search(name) is not None
