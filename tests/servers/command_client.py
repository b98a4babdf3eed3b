"""The commands of L{tests.servers.prepared.bin_directory}: a request to a prepared interpreter.

It is a script of its own that imports only what is built in, so that it starts in a hundredth of a second.
The process that it has started has its streams; it passes signals on, and ends with the same status.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import marshal
import posix
import sys


def main() -> None:
    """Have the process started, and wait for its end."""
    directory, _, program = sys.argv[0].rpartition("/")
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    server.connect(f"{directory}/.{program}")
    environment = {_text(name): _text(value) for name, value in posix.environ.items()}
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    request = marshal.dumps((sys.argv, environment, posix.getcwd(), False))
    server.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    for number in range(3):
        posix.close(number)
    process = int(server.recv(64))
    for passed in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGUSR1):
        _signal.signal(passed, lambda number, _: posix.kill(process, number))
    status = int(server.recv(64))
    if status < 0:
        _signal.signal(-status, _signal.SIG_DFL)
        posix.kill(posix.getpid(), -status)
    posix._exit(status)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


if __name__ == "__main__":
    main()
