"""Transfer to other queue managers: outgoing queues, sessions, the enterprise and its routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from klein import Klein
from twisted.web.server import Request

from msmq.control.server.http.disconnection import running
from msmq.control.server.http.requests import refuse_rest, take
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.messages.properties import guid
from msmq.interfaces.manager.summaries import OutgoingQueueSummary, SessionSummary
from msmq.routing.topology import Topology
from msmq.routing.topology_description import describe_parts, describe_route
from msmq.structures.status import MQError
from msmq.web.console.enterprise_map import EnterpriseDrawing, PeerStates
from msmq.web.console.pages.context import PageContext, page_parameters
from msmq.web.console.rows import TableRows, read_query

LISTED: Final = 500
"""Links and queue managers of the enterprise in the tables below the map."""

OUTGOING_COLUMNS: Final[Mapping[str, Callable[[OutgoingQueueSummary], Any]]] = {
    "name": lambda queue: queue.format_name.casefold(),
    "state": lambda queue: queue.state,
    "messages": lambda queue: queue.messages,
    "bytes": lambda queue: queue.bytes,
    "unacknowledged": lambda queue: queue.unacknowledged,
    "awaiting": lambda queue: queue.awaiting_final_acks,
    "attempt": lambda queue: queue.next_attempt or float("inf"),
}

SESSION_COLUMNS: Final[Mapping[str, Callable[[SessionSummary], Any]]] = {
    "address": lambda session: session.remote_address,
    "direction": lambda session: session.direction,
    "state": lambda session: session.state,
    "sent": lambda session: session.statistics.sent,
    "received": lambda session: session.statistics.received,
    "unacknowledged": lambda session: session.statistics.unacknowledged,
}


class TransferPages:
    """Outgoing queues, sessions and routes."""

    app = Klein()

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._inspection = context.manager.inspection
        self._messages = context.manager.message_administration

    @app.route("/outgoing", methods=["GET"])
    async def outgoing(self, request: Request) -> bytes:
        """One page of the outgoing queues."""
        found = page_parameters(request)
        query = read_query(found, OUTGOING_COLUMNS, "name")
        refuse_rest(found, "filter, sort, order and page")
        rows = TableRows(
            query, OUTGOING_COLUMNS, lambda queue: "\n".join([queue.format_name, *queue.next_hops])
        )
        table = await self._context.table(self._inspection.each_outgoing(), rows)
        return await self._context.page(request, "outgoing", table=table)

    @app.route("/outgoing_queue", methods=["GET"])
    async def outgoing_queue(self, request: Request) -> bytes:
        """One outgoing queue, with its connection history."""
        found = page_parameters(request)
        name = take(found, "name")
        refuse_rest(found, "name")
        return await self._context.page(
            request,
            "outgoing_queue",
            queue=json_record(self._inspection.outgoing_queue(name)),
            last=self._messages.last_sequential,
        )

    @app.route("/sessions", methods=["GET"])
    async def sessions(self, request: Request) -> bytes:
        """One page of the sessions."""
        found = page_parameters(request)
        query = read_query(found, SESSION_COLUMNS, "address")
        refuse_rest(found, "filter, sort, order and page")
        rows = TableRows(
            query, SESSION_COLUMNS, lambda session: f"{session.remote_address}\n{session.remote_identifier}"
        )
        table = await self._context.table(self._inspection.each_session(), rows)
        return await self._context.page(request, "sessions", table=table)

    @app.route("/session", methods=["GET"])
    async def session(self, request: Request) -> bytes:
        """One session."""
        found = page_parameters(request)
        identifier = guid("id", take(found, "id"))
        refuse_rest(found, "id")
        return await self._context.page(request, "session", session=self._inspection.session(identifier))

    @app.route("/enterprise", methods=["GET"])
    async def enterprise(self, request: Request) -> bytes:
        """Sites, links and queue managers; with C{source} and C{destination} also the route between them.

        C{down} has the names of queue managers that are taken to be down, with commas between them.
        """
        found = page_parameters(request)
        source, destination, down = (
            found.pop(name, "").strip() for name in ("source", "destination", "down")
        )
        refuse_rest(found, "source, destination and down")
        topology, drawn, route, problem = None, None, None, ""
        try:
            whole = await running(self._inspection.topology())
            if source and destination:
                members = [name.strip() for name in down.split(",") if name.strip()]
                try:
                    route = await running(self._inspection.route(source, destination, members))
                except MQError as error:
                    problem = error.detail or error.status.name
                await self._context.pause()
            states = PeerStates(self._inspection.unreached_members())
            await self._context.each(self._inspection.each_outgoing(), states.add_outgoing)
            await self._context.each(self._inspection.each_session(), states.add_session)
            own = self._inspection.status().identifier
            await self._context.pause()
            drawing = EnterpriseDrawing(whole, states, own, None if route is None else route.route, source)
            await self._context.each(drawing.steps(), lambda _: None)
            drawn = drawing.drawn()
            await self._context.pause()
            topology = await self._listed(whole)
        except MQError as error:
            problem = error.detail or error.status.name
        return await self._context.page(
            request,
            "enterprise",
            topology=topology,
            drawn=drawn,
            route=None if route is None else describe_route(route.topology, route.route),
            problem=problem,
            source=source,
            destination=destination,
            down=down,
        )

    async def _listed(self, topology: Topology) -> dict[str, Any]:
        """The first links and queue managers of an enterprise, and how many there are."""
        parts = describe_parts(topology)
        links: list[dict[str, Any]] = []
        machines: list[dict[str, Any]] = []
        await self._context.each(islice(parts["links"], LISTED), links.append)
        await self._context.each(islice(parts["queue_managers"], LISTED), machines.append)
        return {
            "links": links,
            "link_count": len(topology.links),
            "queue_managers": machines,
            "queue_manager_count": len(topology.queue_managers),
        }
