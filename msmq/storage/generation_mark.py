"""The mark outside a store by which one that is not the one last used is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import attrs

from msmq.durable import write_durably
from msmq.interfaces.storage import StorageError


@attrs.frozen
class GenerationMark:
    """Which store was used last, and how far it had come.

    It is written only after the store has that number on stable storage, so a store that is behind its mark
    has lost something.

    @ivar store: the identifier of the store.
    @ivar number: one that rises with what is written.
    """

    store: bytes
    number: int

    def write(self, path: Path) -> None:
        """Have it on disk.

        @raise OSError: it cannot be written.
        """
        text = json.dumps({"store": self.store.hex(), "sequence": self.number})
        write_durably(path, text.encode() + b"\n")

    @classmethod
    def read(cls, path: Path) -> GenerationMark | None:
        """The mark in a file; C{None} if there is no file.

        @raise StorageError: it cannot be read.
        """
        try:
            found = json.loads(path.read_bytes())
            return cls(bytes.fromhex(found["store"]), int(found["sequence"]))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{path}: cannot read: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"{path}: not the mark of a store: {error}; --accept-loss opens the store without it"
            ) from None
