"""A queue manager that accepts sessions of known peers only, and blocks peers that send a forbidden message.

Its arguments are the identifiers of the admitted queue managers, as C{msmq status} on each shows them::

    python examples/policy.py msmq-data 127.0.0.3 761BB34D-7CC6-4988-BCCF-C0EAF0A2818A
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.task import react

from msmq import CloseReason, Overrides, Server, SessionProtocol, UserMessageView, load
from msmq.interfaces import HookResult


@attrs.define
class Policy:
    """The admitted peers, and the forbidden label.

    @ivar known: the queue managers that may open a session.
    @ivar forbidden_label: a peer that sends a message with this label is not admitted again.
    """

    known: frozenset[UUID]
    forbidden_label: str
    shut_out: set[UUID] = attrs.field(factory=set)


class GuardedSession(SessionProtocol):
    """Session that applies the policy before the queue manager gets the messages."""

    def __init__(self, *args: Any, policy: Policy) -> None:
        super().__init__(*args)
        self._policy = policy

    def may_open(self) -> bool:
        """Refuse an initiator in the handshake ([MS-MQQB] 2.2.1 CS)."""
        policy, who = self._policy, self.remote_identifier
        return super().may_open() and who in policy.known and who not in policy.shut_out

    def messages_arriving(self, messages: Sequence[UserMessageView], first_recoverable: int) -> HookResult:
        """Accept a batch, or refuse all of it.

        Closing acknowledges nothing: the peer keeps what it sent, and would bring it again and again
        if it were let in.
        """
        for message in messages:
            if message.label == self._policy.forbidden_label:
                self.message_rejected(message, f"the label {message.label!r} is forbidden")
                if self.remote_identifier is not None:
                    self._policy.shut_out.add(self.remote_identifier)
                self.close(CloseReason.REFUSED)
                return None
        return super().messages_arriving(messages, first_recoverable)

    def message_rejected(self, message: UserMessageView, reason: str) -> None:
        """Count a refusal; the queue manager calls this too, for messages to unknown queues."""
        print(f"{self.remote_address}: message {message.identifier} not taken: {reason}", flush=True)


async def main(reactor: Any, data: str, address: str, *known: str) -> None:
    """Run the queue manager until the process is stopped."""
    policy = Policy(frozenset(UUID(identifier) for identifier in known), "drop table")
    server = Server(
        load(None, Overrides(data=data, address=address)),
        reactor,
        session_protocol=functools.partial(GuardedSession, policy=policy),
    )
    reactor.addSystemEventTrigger("before", "shutdown", server.stopService)
    server.startService()
    await server.started
    print(f"listens on {', '.join(server.addresses)}", flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
