"""Whether the masters of a local cluster find free ports, asked before anything is started.

A port may still be taken between the question and the start; then the master itself says so.
"""

import errno
import socket
from itertools import chain

from stoker.core.errors import StartupFailed
from stoker.core.ports import parse_ports
from stoker.rest.options import RestOptions

_ANY = 0


def check_rest_ports(options: RestOptions, masters: int) -> None:
    """Raises InvalidOption for what is not a port, StartupFailed when too few are free."""
    ports = list(
        chain.from_iterable(parse_ports(options.bind_port, "--rest-port (rest.bind-port)"))
    )
    if _ANY in ports:
        return
    free = 0
    for port in ports:
        free += is_free(options.bind_address, port)
        if free == masters:
            return
    what = f"port {ports[0]} is in use" if len(ports) == 1 else f"{free} of these ports are free"
    needs = "a master needs one" if masters == 1 else f"{masters} masters need one each"
    raise StartupFailed(
        f"--rest-port (rest.bind-port) {options.bind_port}: {what} at {options.bind_address}, and "
        f"{needs}; name others, or 0 for any free one"
    )


def is_free(address: str, port: int) -> bool:
    try:
        socket.create_server((address, port)).close()
    except OSError as error:
        # Any other fault is told by the master, with its own remedy.
        return error.errno != errno.EADDRINUSE
    return True
