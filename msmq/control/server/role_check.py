"""Checks the role of a caller before the handler of a route."""

from __future__ import annotations

from typing import ClassVar

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.web.iweb import IRequest

from msmq.control.authentication.roles import required_role
from msmq.control.protocol.refusals import role_too_low
from msmq.control.server.http.requests import ControlRequest
from msmq.line_limit import LineLimit
from msmq.moment import Moment
from msmq.quoting import shown


class RoleCheck:
    """Refuses requests for which the role of the caller does not suffice, and logs them at a limited rate."""

    _log: ClassVar[Logger] = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._lines = LineLimit.a_minute(2)

    def admit(self, request: IRequest, route: str) -> None:
        """Check a request for a route, given as the API declares it.

        @raise MQError: MQ_ERROR_ACCESS_DENIED.
        """
        assert isinstance(request, ControlRequest)
        method = request.method.decode("ascii", "replace")
        if request.may(method, route):
            return
        path = request.path.decode("utf-8", "replace")
        error = role_too_low(
            request.token_name, request.role, f"{method} {path}", required_role(method, route)
        )
        seconds = self._clock.seconds()
        if (others := self._lines.take(Moment(monotonic=seconds, wall=seconds))) is not None:
            self._log.warn(
                "{caller}: a request is refused: {reason}{others}",
                caller=str(request.caller),
                reason=shown(error.detail),
                others=others,
            )
        raise error
