"""Who owns jobs where callers show no token."""

import os
import pwd


def local_user() -> str:
    """Name of the user who runs this process; its number if it has no name, as in a container."""
    user_id = os.getuid()
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return f"uid {user_id}"
