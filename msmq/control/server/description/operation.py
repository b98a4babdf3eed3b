"""What a route takes and answers, for its description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from msmq.control.server.description.schemas import Schema
from msmq.control.server.http.responses import JSON

OCTETS: Final = "application/octet-stream"


@attrs.frozen(kw_only=True)
class ApiOperation:
    """One method of one route.

    @ivar query: the schemas of the query parameters, by name.
    @ivar required: the query parameters that must be there.
    @ivar repeated: the query parameters that can be given several times.
    @ivar body: the schema of a body in JSON; C{None} without one.
    @ivar needs_body: whether a request without this body is refused.
    @ivar raw_body: the content type of a body that is not JSON.
    @ivar answers: the schemas of the response, by content type.
    @ivar status: the HTTP status of success.
    """

    query: Mapping[str, Schema] = attrs.field(factory=dict)
    required: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    body: Schema | None = None
    needs_body: bool = True
    raw_body: str = ""
    answers: Mapping[str, Schema] = attrs.field(factory=lambda: {JSON: {"type": "object"}})
    status: int = 200
