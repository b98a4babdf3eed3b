"""A custom broker: prints every message that arrives, and answers each one that names a response queue.

It has sessions and no queue manager; to a sending queue manager it looks like any other queue manager::

    python examples/custom_broker.py tcp:1801:interface=127.0.0.3

Send to any queue at that address, from a queue manager that runs on another one, and name a response
queue at the sender::

    msmq send 'DIRECT=TCP:127.0.0.3\\private$\\echo' --body hello \\
        --response-queue 'DIRECT=TCP:127.0.0.2\\private$\\answers'
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import react

from msmq import (
    CloseReason,
    IClock,
    Message,
    MQError,
    OutgoingMessage,
    OutgoingPacket,
    RemoteProtocolError,
    SessionFactory,
    SessionProtocol,
    UserMessageView,
    build_packet,
)


class EchoSession(SessionProtocol):
    """One session; answers leave on the one that brought the question."""

    factory: EchoFactory

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._answers: deque[OutgoingPacket] = deque()

    def session_opened(self) -> None:
        """Print the peer of a new session."""
        print(f"{self.remote_address}: session with {self.remote_identifier}")

    def messages_arriving(self, messages: Sequence[UserMessageView], first_recoverable: int) -> None:
        """Print and answer a batch, then say that we are done with its recoverable messages."""
        for message in messages:
            print(f"{self.remote_address}: {message.label!r}, {message.body_size} bytes")
            answer = self.factory.answer(message)
            if answer is not None:
                self._answers.append(answer)
        self.room_for_messages()
        recoverable = sum(message.is_recoverable for message in messages)
        if recoverable:
            self.persisted(first_recoverable + recoverable - 1)

    def room_for_messages(self) -> None:
        """Send as many answers as the window of the peer lets out; called again when it opens."""
        count = min(self.capacity, len(self._answers))
        if count:
            self.send([self._answers.popleft() for _ in range(count)])

    def session_closed(
        self,
        reason: CloseReason,
        unacknowledged: Sequence[OutgoingMessage],
        error: RemoteProtocolError | None,
    ) -> None:
        """Say why it is over, and what is lost by that; a queue manager would send it again."""
        lost = len(unacknowledged) + len(self._answers)
        print(f"{self.remote_address}: closed, {reason.value}, {lost} answers lost")


class EchoFactory(SessionFactory):
    """Accepts sessions, and makes answers.

    @param identifier: the GUID of this queue manager; it should be the same in each run.
    """

    protocol = EchoSession

    def __init__(self, identifier: UUID, *, reactor: IReactorTime, clock: IClock | None = None) -> None:
        super().__init__(identifier, reactor=reactor, clock=clock)
        self._message_ids = itertools.count(1)

    def answer(self, question: UserMessageView) -> OutgoingPacket | None:
        """The packet that answers a message; C{None} if it wants no answer, or none can be given."""
        try:
            destination = question.response_format_name()
            if destination is None:
                return None
            packet = build_packet(
                Message(
                    body=b"heard: " + bytes(question.body),
                    label=question.label,
                    correlation_id=question.identifier.to_bytes(),
                ),
                destination,
                source=self.identifier,
                message_id=next(self._message_ids),
                sent_time=self.clock.now().unix_seconds,
            )
        except MQError as error:
            print(f"no answer to {question.identifier}: {error}")
            return None
        return OutgoingPacket(packet)


async def main(reactor: Any, endpoint: str = "tcp:1801:interface=127.0.0.1") -> None:
    """Accept sessions until the process is stopped."""
    factory = EchoFactory(uuid4(), reactor=reactor)
    await serverFromString(reactor, endpoint).listen(factory)
    print(f"listens on {endpoint}", flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
