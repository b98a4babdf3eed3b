"""Send stream in a request body: sent while it arrives, answered with a line for each message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from twisted.internet.interfaces import IReactorTime
from twisted.web.server import Request

from msmq.control.protocol.refusals import http_status, refusal
from msmq.control.server.http.disconnection import next_reactor_turn
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.http.responses import JSON_LINES, ResponseStream, to_json
from msmq.control.server.sending.identifiers import IdentifierRange
from msmq.control.server.sending.pipeline import PausableSource, SendPipeline, SendResult
from msmq.interfaces.manager.queue_manager import IMessaging
from msmq.structures.status import MQError

_IDENTIFIERS_AT_ONCE: Final = 500


class SendBody:
    """Write-only file object that receives the body from the HTTP server.

    No message after a refused one is sent.

    @ivar is_behind: never.
    """

    is_behind: Final = False

    def __init__(
        self, manager: IMessaging, limits: ControlLimits, clock: IReactorTime, source: PausableSource
    ) -> None:
        self._clock = clock
        self._accepted: list[IdentifierRange] = []
        self._pipeline = SendPipeline(
            manager, limits, clock, source, self, stops_at_refusal=True, has_end_record=False
        )

    def report(self, results: Sequence[SendResult], *, is_last: bool) -> None:
        """Keep the identifiers for the response."""
        for result in results:
            for found in result.accepted:
                if self._accepted and self._accepted[-1].is_followed_by(found.first):
                    self._accepted[-1].count += found.count
                else:
                    self._accepted.append(found)

    def write(self, data: bytes) -> None:
        """Process the next bytes of the stream."""
        self._pipeline.write(data)

    def refuse(self, error: MQError) -> None:
        """Send nothing more of it; the answer has this error after the messages that were accepted."""
        self._pipeline.refuse(error)

    def tell(self) -> int:
        """Return 0, so that the HTTP server does not parse a form."""
        return 0

    def seek(self, offset: int, whence: int = 0) -> int:
        """Do nothing."""
        return 0

    def read(self, size: int = -1) -> bytes:
        """Return no bytes; they went to the queue manager."""
        return b""

    def close(self) -> None:
        """The request has ended, or its client has disconnected."""
        self._pipeline.close()

    async def answer(self, request: Request) -> None:
        """Answer the complete body when its messages are sent, or one is refused.

        The response has a line for each accepted message, and last the refusal, if any.
        """
        self._pipeline.complete()
        error = await self._pipeline.ended
        if error is not None:
            request.setResponseCode(http_status(error))
        answer = ResponseStream(request, JSON_LINES)
        try:
            answer.open()
            for accepted in self._accepted:
                for start in range(0, accepted.count, _IDENTIFIERS_AT_ONCE):
                    lines = [to_json({"id": text}) for text in accepted.texts(start, _IDENTIFIERS_AT_ONCE)]
                    answer.write(b"\n".join(lines) + b"\n")
                    await next_reactor_turn(self._clock)
                    await answer.drained()
            if error is not None:
                answer.write(to_json(refusal(error)) + b"\n")
        finally:
            answer.close()
