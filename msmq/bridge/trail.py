"""The trail of a message: the routes that it has passed, by which a loop of bridges is noticed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

import attrs

from msmq.interfaces.bridge_messages import MappingError
from msmq.quoting import quoted, shown

HOPS: Final = "msmq-hops"
"""Header with the number of routes that a message has passed."""

ORIGIN: Final = "msmq-origin"
"""Header with the names of these routes, the first first, separated by commas."""

_DIGITS: Final = 4
_LONGEST: Final = 4096


@attrs.frozen
class Trail:
    """The routes that a message has passed.

    @ivar hops: their number, which may be more than the names say, if other bridges name none.
    """

    hops: int = 0
    routes: tuple[str, ...] = ()

    @classmethod
    def read(cls, headers: Mapping[str, Any]) -> Self:
        """Read the headers of a message; values that no bridge writes count as absent."""
        if HOPS not in headers and ORIGIN not in headers:
            return cls()
        hops, origin = str(headers.get(HOPS, "")), headers.get(ORIGIN, "")
        number = int(hops) if hops.isdecimal() and hops.isascii() and len(hops) <= _DIGITS else 0
        text = origin if isinstance(origin, str) and len(origin) <= _LONGEST else ""
        return cls(number, tuple(part for part in text.split(",") if part))

    def extended(self, route: str, limit: int) -> Trail:
        """The trail behind another route.

        @param limit: the most routes.
        @raise MappingError: the message has passed this route before, or too many.
        """
        if route in self.routes:
            raise MappingError(
                f"loop: the message has passed the route {quoted(route)} before"
                f" ({shown(', '.join(self.routes))})"
            )
        hops = max(self.hops, len(self.routes)) + 1
        if hops > limit:
            raise MappingError(f"loop: the message has passed {hops - 1} bridges, and the limit is {limit}")
        return Trail(hops, (*self.routes, route))

    def headers(self) -> dict[str, str]:
        """The headers that carry the trail."""
        return {HOPS: str(self.hops), ORIGIN: ",".join(self.routes)}
