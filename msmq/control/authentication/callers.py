"""Identity of a caller of the control API, from its socket credentials or token.

For a unix socket the kernel reports the connected user (SO_PEERCRED); over the network the token identifies
the caller. Neither comes from unverified input of the caller.
"""

from __future__ import annotations

import pwd
import socket
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import attrs

_CREDENTIALS: Final = struct.Struct("=iII")
_NOT_LOGGED_IN: Final = 0xFFFFFFFF
_PROCESSES: Final = Path("/proc")


@attrs.frozen
class Caller:
    """The caller of a request.

    @ivar uid: the user who connected to the unix socket, with C{gid} and C{pid}; C{None} elsewhere.
    @ivar login_uid: the user who logged in before becoming that user, with sudo for example, if the kernel
        records it. A process without a login may have set it, so it is a hint, and C{uid} is authoritative.
    @ivar token_name: the name of the token in the request; never the token.
    @ivar address: the network address of a remote caller.
    """

    uid: int | None = None
    gid: int | None = None
    pid: int | None = None
    login_uid: int | None = None
    token_name: str = ""
    address: str = ""

    def __str__(self) -> str:
        if self.uid is not None:
            if self.login_uid is None or self.login_uid == self.uid:
                return _user(self.uid)
            return f"{_user(self.uid)}, logged in as {_user(self.login_uid)}"
        who = self.token_name or "unknown"
        return f"{who} from {self.address}" if self.address else who


def caller_of(transport: object, token_name: str = "") -> Caller:
    """Identify the caller of a connection.

    @param token_name: the name of the token in the request.
    """
    found: Any = transport
    if not token_name and hasattr(found, "getHandle"):
        handle = found.getHandle()
        if getattr(handle, "family", None) == socket.AF_UNIX:
            return _local(handle)
    return Caller(token_name=token_name, address=getattr(found.getPeer(), "host", ""))


def _local(handle: socket.socket) -> Caller:
    try:
        found = handle.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return Caller()
    pid, uid, gid = _CREDENTIALS.unpack(found)
    return Caller(uid, gid, pid, login_uid(pid))


def login_uid(pid: int, processes: Path = _PROCESSES) -> int | None:
    """The login user of a process, whatever its present user; C{None} if that is not recorded."""
    try:
        found = int((processes / str(pid) / "loginuid").read_text("ascii"))
    except (OSError, ValueError):
        return None
    return None if found == _NOT_LOGGED_IN else found


@lru_cache(1024)
def _user(uid: int) -> str:
    """A user with its name; looked up once, since the system may have to query a directory."""
    try:
        return f"uid {uid} ({pwd.getpwuid(uid).pw_name})"
    except KeyError:
        return f"uid {uid}"
