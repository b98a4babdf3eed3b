"""The queue manager's identifier: created once, stored permanently in the data directory.

[MS-MQQB] note 53: every installation creates its own GUID and stores it durably.
Other queue managers know us by it, so a damaged file is never replaced by a new identity.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from uuid import UUID, uuid4

from msmq.durable import write_durably
from msmq.errors import MsmqError
from msmq.wire.guid import NULL_GUID, braced, parse_guid


class IdentityError(MsmqError):
    """The identity cannot be read or stored; names the file, and the reason."""


def identity_path(data: Path) -> Path:
    """The identity file of a data directory."""
    return data / "identity.json"


def has_identity(data: Path) -> bool:
    """Whether a data directory already has an identifier.

    @raise IdentityError: that cannot be seen: the directory may not be entered, for example.
    """
    path = identity_path(data)
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise IdentityError(f"{path}: {error.strerror}") from error
    return True


def check_renewal(data: Path) -> None:
    """Check that no renewal of the identifier was interrupted when it had renamed the data directory.

    A new directory, with a new queue manager, would otherwise take the name of the one that has the messages.

    @raise IdentityError: the directory has no identifier, next to it are a former data directory and a new
        one that did not get its name.
    """
    if has_identity(data):
        return
    data = Path(os.path.realpath(data))
    former = re.compile(re.escape(data.name) + r"\.[0-9a-f]{8}")
    try:
        names = sorted(os.listdir(data.parent))
        renamed = [data.with_name(name) for name in names if former.fullmatch(name)]
        renamed = sorted(filter(has_identity, renamed), key=lambda path: path.stat().st_ctime)
    except (OSError, IdentityError):
        return
    unfinished = [name for name in names if name.startswith(unfinished_name(data))]
    if renamed and unfinished:
        raise IdentityError(
            f"{data}: msmq identity renew was interrupted when this directory had the name {renamed[-1]};"
            f" rename it back and run msmq identity renew again. To start a new queue manager instead, remove"
            f" {data.with_name(unfinished[-1])}"
        )


def unfinished_name(data: Path) -> str:
    """The beginning of the name of a directory that gets the name of a data directory when it is complete."""
    return f".{data.name}.new-"


def load_identity(data: Path, make: Callable[[], UUID] = uuid4) -> UUID:
    """QueueManager.Identifier of a data directory; created if it has none yet. [MS-MQDMPR] 3.1.1.1.

    A new identity is on disk when this returns.

    @param make: gives a new identifier.
    @raise IdentityError: the file is damaged, or cannot be read or written.
    """
    path = identity_path(data)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        identifier = make()
        _write(path, identifier)
        return identifier
    except OSError as error:
        raise IdentityError(f"{path}: {error.strerror}") from error
    return _read(path, content)


def adopt_identity(data: Path, identifier: UUID) -> None:
    """Give a data directory the identifier of the queue manager whose store it shares.

    @raise IdentityError: it has another one, or it cannot be read or written.
    """
    own = load_identity(data, lambda: identifier)
    if own != identifier:
        raise IdentityError(
            f"{identity_path(data)} has the identifier {braced(own)}, and the store is that of"
            f" {braced(identifier)}: a standby needs a data directory of its own, new or of the same queue"
            " manager"
        )


def _read(path: Path, content: bytes) -> UUID:
    try:
        match json.loads(content):
            case {"identifier": str(text)}:
                identifier = parse_guid(text)
            case _:
                raise _damaged(path)
    except (ValueError, RecursionError) as error:
        raise _damaged(path) from error
    if identifier == NULL_GUID:
        raise _damaged(path)
    return identifier


def _damaged(path: Path) -> IdentityError:
    return IdentityError(
        f'{path} is damaged: it must hold {{"identifier": "{{GUID}}"}}. '
        "Restore it from a backup; with another identifier other queue managers treat this one as a "
        "different one"
    )


def _write(path: Path, identifier: UUID) -> None:
    content = json.dumps({"identifier": braced(identifier)}) + "\n"
    try:
        write_durably(path, content.encode("ascii"))
    except OSError as error:
        raise IdentityError(f"{path}: {error.strerror}") from error
