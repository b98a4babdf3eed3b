"""Sending on an upgraded connection, on which each message is answered as soon as its result is certain.

A record has the result of messages, in order: accepted (C{first}, an identifier, and C{messages}, the number
of messages with consecutive identifiers), or refused (C{error}, C{detail}, C{messages}). The client ends the
stream with a record with C{end}, which also commits a transaction.  The last record of the server is C{end}:
C{complete}, or C{error} after a refusal.
"""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.interfaces import IReactorTime

from msmq.control.protocol.records import StreamRecord
from msmq.control.protocol.refusals import no_longer_admitted, refusal
from msmq.control.server.http.admission import watched
from msmq.control.server.http.channel import RecordConnection
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.http.requests import ControlRequest
from msmq.control.server.sending.pipeline import SendPipeline, SendResult
from msmq.interfaces.manager.queue_manager import IMessaging


class SendConnection:
    """One upgraded connection on which an application sends."""

    def __init__(
        self,
        request: ControlRequest,
        manager: IMessaging,
        limits: ControlLimits,
        clock: IReactorTime,
        *,
        stops_at_refusal: bool | None,
    ) -> None:
        """Create it; L{run} upgrades the connection.

        @param stops_at_refusal: as of L{SendPipeline}.
        """
        self._pipeline = SendPipeline(
            manager,
            limits,
            clock,
            request.connection,
            self,
            stops_at_refusal=stops_at_refusal,
            has_end_record=True,
        )
        self._request = request
        self._clock = clock
        self._connection = RecordConnection(request, self._take, self._pipeline.report)

    def _take(self, data: bytes) -> None:
        if not self._request.is_current():
            self._pipeline.refuse(no_longer_admitted())
        self._pipeline.write(data)

    @property
    def accepted_by_destination(self) -> dict[str, int]:
        """The number of accepted messages for each of the first destinations."""
        return self._pipeline.accepted_by_destination

    @property
    def is_behind(self) -> bool:
        """Whether the client has many results still to read."""
        return self._connection.is_behind

    def report(self, results: Sequence[SendResult], *, is_last: bool) -> None:
        """Write results of messages."""
        parts: list[bytes] = []
        for result in results:
            for accepted in result.accepted:
                header = {"first": str(accepted.first), "messages": accepted.count}
                parts.append(StreamRecord(header).to_bytes())
            if result.error is not None:
                header = {**refusal(result.error), "messages": result.refused}
                parts.append(StreamRecord(header).to_bytes())
        self._connection.write(b"".join(parts), is_awaited=is_last)

    async def run(self) -> None:
        """Send arriving messages until the client ends the stream or a message is refused.

        It is cancelled when the client disconnects.
        """
        self._connection.open()
        try:
            with watched(self._connection, self._clock, self._pipeline.refuse):
                error = await self._pipeline.ended
        finally:
            self._pipeline.close()
        self._connection.send_header(end="complete" if error is None else "error")
        self._connection.end()
