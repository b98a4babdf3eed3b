"""The unix socket of the local API."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IReactorTime

from msmq.errors import MsmqError
from msmq.net.endpoints import join_description, server_endpoint


class ControlSocketError(MsmqError):
    """The control socket cannot be made; says which and why."""


async def listen_on_control_socket(
    reactor: IReactorTime, path: Path, factory: IProtocolFactory
) -> IListeningPort:
    """Listen on a socket for this user only, in place of one that a server which died has left.

    Twisted's lock file is off: it would outlive a killed process, and in a container the next one has
    the same process identifier and would take it for a running server.
    The lock on the data directory does its work.

    @raise ControlSocketError: another server answers there, or something else has that name.
    """
    _remove_abandoned(path)
    try:
        description = join_description(("unix", os.fspath(path)), {"mode": "600", "lockfile": "0"})
        return await server_endpoint(reactor, description).listen(factory)
    except CannotListenError as error:
        # Twisted has told the factory that a port begins, and does not tell it that none came of it.
        factory.doStop()
        raise ControlSocketError(f"cannot listen on the control socket {path}: {reason(error)}") from error


def reason(error: CannotListenError) -> str:
    """Why a port could not be had, in the system's words."""
    cause = error.socketError
    return (cause.strerror or str(cause)) if isinstance(cause, OSError) else str(cause)


def _remove_abandoned(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ControlSocketError(f"control socket {path}: there is something else of that name")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            probe.connect(os.fspath(path))
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)
        return
    except BlockingIOError:
        pass
    except OSError as error:
        raise ControlSocketError(f"control socket {path}: {error.strerror}") from error
    raise ControlSocketError(f"control socket {path} is in use by another server")
