"""`python thief.py UID PORT…`: another user of the machine who listens where masters would.

Listens on the ports, on all loopback addresses, and prints whatever anybody sends there.
"""

import os
import selectors
import socket
import sys

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


def main(uid: int, ports: list[int]) -> None:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    waiting = selectors.DefaultSelector()
    for port in ports:
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            listener = socket.create_server((host, port), family=family)
            waiting.register(listener, selectors.EVENT_READ)
    print("listening", flush=True)
    while True:
        for key, _ in waiting.select():
            source = key.fileobj
            assert isinstance(source, socket.socket)
            _serve(waiting, source)


def _serve(waiting: selectors.BaseSelector, source: socket.socket) -> None:
    if source.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        accepted, address = source.accept()
        print(f"connection to {source.getsockname()} from {address}", flush=True)
        waiting.register(accepted, selectors.EVENT_READ)
        return
    try:
        sent = source.recv(65536)
    except OSError:
        sent = b""
    if not sent:
        waiting.unregister(source)
        source.close()
        return
    print(sent.decode(errors="replace"), flush=True)
    source.sendall(ANSWER)


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(port) for port in sys.argv[2:]])
