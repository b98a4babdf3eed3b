"""Resource with the alarms of the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from klein import Klein

from msmq.control.protocol.refusals import invalid
from msmq.control.server.alarms.manager_alarms import QueueAlarms, server_alarms
from msmq.control.server.http.disconnection import next_reactor_turn, running
from msmq.control.server.http.requests import ControlRequest, parameters, refuse_rest
from msmq.control.server.http.responses import json_answer
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.messages.properties import number
from msmq.control.server.resources.context import ResourceContext
from msmq.control.server.server_configuration import ServerConfiguration
from msmq.interfaces.archive import IArchive
from msmq.interfaces.bridges import IBridges

MOST_ALARMS: Final = 1000
"""Limit on alarms about queues in one answer."""

_ALARMS: Final = 100
_TURN: Final = 0.002
_T = TypeVar("_T")


class AlarmResources:
    """What needs an operator's attention."""

    app = Klein()

    def __init__(
        self,
        context: ResourceContext,
        bridges: IBridges,
        archive: IArchive,
        configuration: ServerConfiguration,
    ) -> None:
        self._context = context
        self._inspection = context.manager.inspection
        self._bridges = bridges
        self._archive = archive
        self._configuration = configuration

    @app.route("/v1/alarms", methods=["GET"])
    async def alarms(self, request: ControlRequest) -> bytes:
        """The alarms, the worst first, with at most C{limit} about queues."""
        found = parameters(request)
        limit = number("limit", found.pop("limit", str(_ALARMS)))
        refuse_rest(found, "limit")
        if limit > MOST_ALARMS:
            raise invalid(f"limit: {limit} is more than {MOST_ALARMS}")
        alarms = QueueAlarms(self._inspection.now(), limit)
        await running(self._each(self._inspection.each_queue(), alarms.add_queue))
        await running(self._each(self._inspection.each_outgoing(), alarms.add_outgoing))
        of_server = server_alarms(
            self._inspection.status(),
            self._bridges.summaries(),
            self._archive.summary(),
            self._configuration.certificates(),
            self._configuration.tokens(),
        )
        report = alarms.report(of_server)
        return json_answer(request, json_record(report))

    async def _each(self, values: Iterable[_T], use: Callable[[_T], object]) -> None:
        """Use each value, with a pause for the reactor after each slice."""
        clock = self._context.clock
        began = clock.seconds()
        for value in values:
            use(value)
            if clock.seconds() - began >= _TURN:
                await next_reactor_turn(clock)
                began = clock.seconds()
