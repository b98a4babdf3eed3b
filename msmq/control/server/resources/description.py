"""Resource with the description of the API itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from klein import Klein

from msmq.control.server.http.requests import ControlRequest
from msmq.control.server.http.responses import encoded_answer, to_json
from msmq.control.server.resources.context import ResourceFamily, without_parameters

Describe = Callable[[Iterable[ResourceFamily]], object]
"""Describes the routes of resources as a JSON value."""


class DescriptionResources:
    """The description in OpenAPI, made when it is first requested.

    @param families: all resources of the API.
    """

    app = Klein()

    def __init__(self, families: Iterable[ResourceFamily], describe: Describe) -> None:
        self._families = families
        self._describe = describe
        self._body = b""

    @app.route("/v1/openapi.json", methods=["GET"])
    def description(self, request: ControlRequest) -> bytes:
        """The description of this API in OpenAPI 3.1."""
        without_parameters(request)
        if not self._body:
            self._body = to_json(self._describe(self._families)) + b"\n"
        return encoded_answer(request, self._body)
