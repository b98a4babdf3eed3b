"""Where a data directory was used last: tells a copy of it, or of its computer, from the original.

C{host.json} in the data directory has the facts of the last start; L{difference} compares them with those of
this one.  A container, whose identifiers change with each start, is compared by the directory alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from msmq.durable import write_durably
from msmq.manager.manager_settings import CloneCheck
from msmq.structures.status import MQError, Status

HOST_NAME: Final = "host.json"
"""The file of a data directory that says where it was used last."""

MACHINE_ID: Final = Path("/etc/machine-id")
"""The identifier of an installation of Linux; a container may have none."""

NETWORKS: Final = Path("/sys/class/net")

_CONTAINERS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))
_IN_CONTAINER: Final = ("container", "KUBERNETES_SERVICE_HOST")


@attrs.frozen
class HostFacts:
    """Facts about a data directory and its computer.

    @ivar inode: the number of the identity file in its file system; a copy of the file gets another one.
    @ivar changed: when the file system last changed that file's inode, in nanoseconds; a copy cannot keep it.
    @ivar machine: a hash of the identifier of the computer; empty if it has none, or in a container.
    @ivar networks: hashes of the hardware addresses of its network interfaces; none in a container.
    """

    inode: int
    changed: int
    machine: str
    networks: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """As JSON."""
        return json.dumps(attrs.asdict(self)).encode() + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes) -> HostFacts:
        """The opposite of L{to_bytes}.

        @raise ValueError: it is something else.
        """
        try:
            found = json.loads(content)
            networks = tuple(str(network) for network in found["networks"])
            return cls(int(found["inode"]), int(found["changed"]), str(found["machine"]), networks)
        except (KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"not the facts of a computer: {error}") from error


def difference(last: HostFacts, now: HostFacts) -> str:
    """Why the data directory of C{now} may be a clone of the one of C{last}; empty if it is the same."""
    if last.inode != now.inode and last.changed != now.changed:
        return "the data directory was copied"
    if last.machine and now.machine and last.machine != now.machine:
        return "the data directory is on another computer"
    if last.networks and now.networks and not set(last.networks) & set(now.networks):
        return "all network interfaces of the computer are others, as in a cloned virtual machine"
    return ""


def machine_fingerprint(machine_id: Path = MACHINE_ID) -> str:
    """A hash of the identifier of this computer, which must not be published itself; empty if it has none."""
    try:
        text = machine_id.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""
    return _hash(text) if text else ""


def host_facts(identity: Path, environment: Mapping[str, str] = os.environ) -> HostFacts:
    """The facts about the data directory with this identity file.

    @raise OSError: the file cannot be found.
    """
    status = identity.stat()
    if any(name in environment for name in _IN_CONTAINER) or any(path.exists() for path in _CONTAINERS):
        return HostFacts(status.st_ino, status.st_ctime_ns, "", ())
    return HostFacts(status.st_ino, status.st_ctime_ns, machine_fingerprint(), _networks(NETWORKS))


def check_clone(identity: Path, facts: HostFacts | None = None) -> CloneCheck:
    """Compare the facts of this start with those of the last one, and record them unless they differ.

    @param identity: the identity file of the data directory.
    @param facts: those of this start; C{None} reads them.
    """
    path = identity.with_name(HOST_NAME)
    now = host_facts(identity) if facts is None else facts
    last: HostFacts | None = None
    # There is none at the first start; what cannot be read proves nothing, and is written anew.
    with suppress(OSError, ValueError):
        last = HostFacts.from_bytes(path.read_bytes())

    def keep() -> None:
        try:
            write_durably(path, now.to_bytes())
        except OSError as error:
            raise MQError(
                Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, f"{path}: cannot be written: {error.strerror}"
            ) from error

    suspicion = "" if last is None else difference(last, now)
    if not suspicion and last != now:
        # If it fails, the next start tries again; a full or read-only disk has errors of its own.
        with suppress(MQError):
            keep()
    return CloneCheck(suspicion, keep)


def _networks(directory: Path) -> tuple[str, ...]:
    """Hashes of the addresses of the interfaces that have a device; bridges and the like have none."""
    found = set()
    try:
        for interface in directory.iterdir():
            if (interface / "device").exists():
                address = (interface / "address").read_text("ascii").strip()
                if address.strip("0:"):
                    found.add(_hash(address))
    except (OSError, ValueError):
        return ()
    return tuple(sorted(found))


def _hash(text: str) -> str:
    return hashlib.sha256(f"msmq {text}".encode()).hexdigest()[:32]
