"""Parser of times in options."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Final

from msmq.quoting import quoted

_AGO: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhdw])(?:\s+ago)?")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def parse_time(text: str) -> str:
    """Parse a time in ISO 8601 (UTC unless it has an offset), or an age: C{90s}, C{15m}, C{2h}, C{1d}.

    The result sorts as text with the times in JSON.

    @raise ValueError: the text is neither.
    """
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago is not None:
            seconds = float(ago.group(1)) * _UNITS[ago.group(2)]
            moment = datetime.fromtimestamp(time.time(), UTC) - timedelta(seconds=seconds)
        else:
            moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{quoted(text)} is before the year 1 or after the year 9999") from None
    except ValueError:
        raise ValueError(f"{text} is neither a time as 2026-01-31T12:00:00 nor an age as 15m") from None
    # Without a suffix it sorts before every time of the same second.
    return moment.replace(tzinfo=None).isoformat(timespec="seconds")
