"""Unix socket of the control API."""

from __future__ import annotations

import grp
import os
import socket
import stat
from pathlib import Path

from twisted.internet.defer import maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IReactorTime

from msmq.errors import MsmqError
from msmq.net.endpoints import join_description, server_endpoint


class ControlSocketError(MsmqError):
    """The control socket cannot be created; names it, and the reason."""


async def listen_on_control_socket(
    reactor: IReactorTime, path: Path, factory: IProtocolFactory, group: str | None = None
) -> IListeningPort:
    """Listen on a socket for this user only, replacing a socket that a crashed server has left.

    No other user can connect at any time, not even before the mode of the socket is set.

    Twisted's lock file is off: it would outlive a killed process, and in a container the next one has
    the same process identifier and would take it for a running server.
    The lock on the data directory does its work.

    @param group: the name of a group that may connect too.
    @raise ControlSocketError: another server answers there, another file has that name, or the group does not
    exist or does not include this user.
    """
    number = None if group is None else group_number(path, group)
    _remove_abandoned(path)
    mask = os.umask(0o177)
    try:
        description = join_description(("unix", os.fspath(path)), {"mode": "600", "lockfile": "0"})
        port = await server_endpoint(reactor, description).listen(factory)
    except CannotListenError as error:
        # Twisted has called doStart of the factory, and does not call doStop when listening fails.
        factory.doStop()
        raise ControlSocketError(f"cannot listen on the control socket {path}: {reason(error)}") from error
    finally:
        os.umask(mask)
    if number is not None:
        try:
            os.chown(path, -1, number)
            path.chmod(0o660)
        except OSError as error:
            await maybeDeferred(port.stopListening)
            raise ControlSocketError(
                f"cannot give the control socket {path} to the group {group}: {error.strerror}"
            ) from error
    return port


def group_number(path: Path, group: str) -> int:
    """The number of the group that may use a control socket.

    @raise ControlSocketError: there is no such group.
    """
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise ControlSocketError(f"control socket {path}: the group {group} does not exist") from None


def reason(error: CannotListenError) -> str:
    """The system's reason why listening on a port failed."""
    cause = error.socketError
    return (cause.strerror or str(cause)) if isinstance(cause, OSError) else str(cause)


def _remove_abandoned(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ControlSocketError(f"control socket {path}: a file of that name exists and is not a socket")
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
