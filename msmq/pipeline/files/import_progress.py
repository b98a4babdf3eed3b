"""The progress of an import, in a file: a killed import continues where it ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from msmq.durable import write_durably
from msmq.pipeline.files.errors import FilesError
from msmq.pipeline.files.import_rows import Row

PROGRESS_NAME: Final = "_msmq_import"
"""The prefix of files with the progress of an import; readers of the data ignore them."""


class ImportProgress:
    """Progress file of an import.

    @ivar done: the files whose rows were all accepted.
    @ivar begun: the number of accepted rows of each other file; several if files were added meanwhile.
    """

    def __init__(self, path: Path, task: str) -> None:
        """Read the file, if it exists.

        @param task: a text that identifies the imported files and the destination.
        @raise FilesError: it cannot be read, or belongs to another import.
        """
        self._path = path
        self._task = task
        self.done: set[str] = set()
        self.begun: dict[str, int] = {}
        self._file = ""
        try:
            found = json.loads(path.read_bytes())
            if found["task"] != task:
                raise FilesError(f"{path}: it belongs to another import; select another file with --progress")
            self.done = set(found["done"])
            self.begun = {file: int(rows) for file, rows in found["begun"].items()}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise FilesError(f"{path}: not a progress file of an import: {error}") from error

    def after(self, file: Path) -> int:
        """The number of accepted rows of a file."""
        return self.begun.get(str(file), 0)

    def reach(self, row: Row) -> None:
        """Record that all rows up to this one are accepted, in its file and in all earlier files."""
        file = str(row.file)
        if self._file not in ("", file):
            self.done.add(self._file)
            del self.begun[self._file]
        self._file = file
        self.begun[file] = row.number

    def note(self) -> None:
        """Write the file.

        @raise FilesError: it cannot be written.
        """
        state = {"task": self._task, "done": sorted(self.done), "begun": self.begun}
        try:
            write_durably(self._path, json.dumps(state).encode("ascii"), 0o666)
        except OSError as error:
            raise FilesError(
                f"{self._path}: {error.strerror or error}; --progress names a file that can be written"
            ) from error

    def remove(self) -> None:
        """Delete the file after a complete import."""
        self._path.unlink(missing_ok=True)
