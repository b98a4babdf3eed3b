"""The last good enterprise file, kept in the data directory. [MS-MQOD] 2.7.4."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from msmq.durable import make_directory, write_durably

COPY_NAME: Final = "directory-copy.json"
"""The name of the copy in the data directory."""


@attrs.frozen
class KeptFile:
    """The content of an enterprise file when it was last read.

    @ivar content: its bytes.
    @ivar read: when it was read, in seconds since 1970-01-01 UTC.
    @ivar certificates: the bytes of the certificate files that it names, by their names there.
    """

    content: bytes
    read: float
    certificates: Mapping[str, bytes] = attrs.field(factory=dict)


class EnterpriseCopy:
    """Stores a copy of the enterprise file for starts at which the file is missing or has faults.

    The copy belongs to the path from which it was read: it never replaces a file of another path.

    @ivar path: the path of the copy.
    """

    def __init__(self, data: Path) -> None:
        """Store the copy in this data directory."""
        self.path = data / COPY_NAME

    def keep(self, source: Path, kept: KeptFile) -> None:
        """Write the copy to disk; blocks, so it is called in a worker thread.

        @param source: the file that was read.
        @raise OSError: it cannot be written; the previous copy stays.
        """
        document = {
            "source": os.fspath(source.absolute()),
            "read": kept.read,
            "content_base64": _encoded(kept.content),
            "certificates": {name: _encoded(data) for name, data in kept.certificates.items()},
        }
        make_directory(self.path.parent)
        write_durably(self.path, json.dumps(document).encode("ascii") + b"\n")

    def load(self, source: Path) -> KeptFile | None:
        """The copy of this file; C{None} if there is none, it is of another file, or it is damaged."""
        try:
            match json.loads(self.path.read_bytes()):
                case {
                    "source": str(of),
                    "read": float() | int() as read,
                    "content_base64": str(content),
                    "certificates": dict(certificates),
                }:
                    decoded = {str(name): _decoded(data) for name, data in certificates.items()}
                    kept = KeptFile(_decoded(content), float(read), decoded)
                case _:
                    return None
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        return kept if of == os.fspath(source.absolute()) else None


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
