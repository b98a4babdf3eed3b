"""Location of the queue manager through which messages are sent."""

from __future__ import annotations

from pathlib import Path

from msmq.control.client.locations import Location, LocationError, UnixLocation, parse_location
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.writing.options import WriteOptions


def location_of(options: WriteOptions) -> Location:
    """The control socket or endpoint of an option value; for a data directory the socket in it.

    @raise ReadingError: the location is invalid.
    """
    path = Path(options.control)
    if path.is_dir():
        return UnixLocation(path / "control.sock")
    try:
        return parse_location(options.control, token_file=options.token_file or None)
    except LocationError as error:
        raise ReadingError(f"the option control: {error}") from None
