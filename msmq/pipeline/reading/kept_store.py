"""Store that is asked again and again, whose reader is kept as long as it is of use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from msmq.pipeline.reading.opening import open_store
from msmq.storage.readers import StoreReader


@attrs.define
class KeptStore:
    """Store at a location; the index of a record log is read once, and followed from then on.

    A reader that is kept answers as one that was opened for the call: what is at the location is looked up
    each time, and a reader of something else is closed.

    @ivar location: as of L{open_store<msmq.pipeline.reading.opening.open_store>}.
    """

    location: str
    _kept: StoreReader | None = attrs.field(default=None, init=False, eq=False, repr=False)

    @contextmanager
    def opened(self) -> Iterator[StoreReader]:
        """A reader for some calls, which are made before the next one is asked for.

        @raise StorageError: there is no store, or it cannot be read.
        """
        found, kept = open_store(self.location), self._kept
        if kept is not None and kept.text == found.text and kept.is_reusable():
            found.close()
            found = kept
        else:
            self.close()
        try:
            yield found
        finally:
            if found.is_reusable():
                self._kept = found
            else:
                found.close()
                self._kept = None

    def close(self) -> None:
        """Close the reader that is kept."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None
