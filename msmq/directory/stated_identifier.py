"""The identifier of a queue manager in an enterprise file that has faults elsewhere. [MS-MQOD] 2.7.4."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from msmq.toml.document import DocumentError, read_document
from msmq.wire.guid import parse_guid


def stated_identifier(path: Path, computer_name: str) -> UUID | None:
    """The identifier that a file has for a queue manager, regardless of faults elsewhere in the file.

    @return: C{None} if the file is not TOML, or its entries do not have exactly one identifier for this
        name and exactly this name for the identifier.
    """
    try:
        rows = read_document(path).values.get("queue_manager")
    except DocumentError:
        return None
    wanted = computer_name.casefold()
    entries = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    stated = [(str(row.get("name", "")).casefold(), _guid(row.get("id"))) for row in entries]
    own = {identifier for name, identifier in stated if name == wanted}
    if len(own) != 1:
        return None
    [identifier] = own
    shared = any(other == identifier and name != wanted for name, other in stated)
    return None if shared else identifier


def _guid(value: object) -> UUID | None:
    try:
        return parse_guid(value) if isinstance(value, str) else None
    except ValueError:
        return None
