"""Generation mark: a file outside the store that detects a replaced or restored store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import attrs

from msmq.durable import write_durably
from msmq.interfaces.storage import StorageError


@attrs.frozen
class GenerationMark:
    """Identity and progress of the store last used.

    It is written only after the store has the number on stable storage, so a store with a smaller number has
    lost data.

    @ivar store: the identifier of the store.
    @ivar number: a number that increases with the writes.
    """

    store: bytes
    number: int

    def write(self, path: Path, write: Callable[[Path, bytes], object] = write_durably) -> None:
        """Write the mark durably.

        @param write: replaces the content of a file durably.
        @raise OSError: it cannot be written.
        """
        text = json.dumps({"store": self.store.hex(), "sequence": self.number})
        write(path, text.encode() + b"\n")

    @classmethod
    def read(cls, path: Path, read: Callable[[Path], bytes] = Path.read_bytes) -> GenerationMark | None:
        """Read the mark in a file; C{None} if there is no file.

        @raise StorageError: it cannot be read.
        """
        try:
            found = json.loads(read(path))
            return cls(bytes.fromhex(found["store"]), int(found["sequence"]))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{path}: cannot read: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"{path}: not the mark of a store: {error}; --accept-loss opens the store without it"
            ) from None
