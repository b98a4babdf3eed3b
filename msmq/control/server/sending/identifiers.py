"""The answer to a stream of messages: their identifiers, a line each."""

from __future__ import annotations

from typing import Final

from twisted.internet.interfaces import IReactorTime

from msmq.control.protocol.refusals import http_status, refusal
from msmq.control.server.http.disconnection import give_way
from msmq.control.server.http.requests import ControlRequest
from msmq.control.server.http.responses import JSON_LINES, ResponseStream, to_json
from msmq.control.server.sending.send_stream import SendStream

_IDENTIFIERS_AT_ONCE: Final = 500


async def answer_with_identifiers(request: ControlRequest, stream: SendStream, clock: IReactorTime) -> None:
    """Answer with a line for each message that a stream has brought, and with what stopped it."""
    if stream.error is not None:
        request.setResponseCode(http_status(stream.error))
    answer = ResponseStream(request, JSON_LINES)
    try:
        answer.open()
        for accepted in stream.accepted:
            for start in range(0, accepted.count, _IDENTIFIERS_AT_ONCE):
                lines = [to_json({"id": text}) for text in accepted.texts(start, _IDENTIFIERS_AT_ONCE)]
                answer.write(b"\n".join(lines) + b"\n")
                await give_way(clock)
                await answer.drained()
        if stream.error is not None:
            answer.write(to_json(refusal(stream.error)) + b"\n")
    finally:
        answer.close()
