"""Copies of messages that are sent again, from a message log or a queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from uuid import UUID

import attrs

from msmq.manager.applications.destinations import Destinations
from msmq.manager.applications.search import message_of
from msmq.manager.applications.targets import SendTarget
from msmq.manager.applications.transactions import Transactions
from msmq.manager.outbox import Outbox
from msmq.queues.arriving.message import Acknowledge, Message
from msmq.structures.algorithms import PrivacyLevel
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status


class CopySender:
    """Sends copies as new messages of this queue manager.

    @param identifier: of the queue manager.
    """

    def __init__(
        self,
        identifier: UUID,
        outbox: Outbox,
        destinations: Destinations,
        transactions: Transactions,
        new_identifier: Callable[[], UUID],
    ) -> None:
        self._identifier = identifier
        self._outbox = outbox
        self._destinations = destinations
        self._transactions = transactions
        self._new_identifier = new_identifier

    def check_name(self, destination: str) -> None:
        """Check a destination before there is anything to send.

        @raise MQError: as L{Destinations.resolve}.
        """
        self._destinations.resolve(destination)

    async def send(self, destination: str, copies: Mapping[str, Message]) -> list[MessageIdentifier]:
        """Send these, and answer one identifier each, in their order.

        They are transactional if a local target is; where there is none, each as it is.

        @param copies: each under what it is called if it is refused.
        @raise MQError: as sending does; what was sent before stays sent.
        """
        targets = await self._destinations.find(destination)
        _check_privacy(copies, targets)
        local = [target.queue.definition.transactional for target in targets if target.is_local]
        messages = [
            attrs.evolve(message, transactional=any(local)) if local else message
            for message in copies.values()
        ]
        for message in messages:
            self._outbox.check([message], targets)
        sent: list[MessageIdentifier] = []
        for is_transactional, run in groupby(messages, key=lambda message: message.transactional):
            batch = list(run)
            first = await self._send(targets, batch, is_transactional)
            sent += [MessageIdentifier(self._identifier, first + index) for index in range(len(batch))]
        return sent

    async def _send(
        self, targets: Sequence[SendTarget], messages: Sequence[Message], is_transactional: bool
    ) -> int:
        if not is_transactional:
            return await self._outbox.put(targets, messages)
        async with self._transactions.begin(self._new_identifier()) as transaction:
            return self._outbox.send_in(transaction.core, targets, messages)


def copy_of(view: UserMessageView, in_clear: bool) -> Message:
    """A message without what only concerned its own journey.

    @param in_clear: its copy does not request encryption, even if the message did.
    """
    message = message_of(view)
    return attrs.evolve(
        message,
        acknowledge=Acknowledge.NONE,
        admin_queue=None,
        journal=False,
        dead_letter=False,
        time_to_be_received=INFINITE,
        privacy_level=PrivacyLevel.NONE if in_clear else message.privacy_level,
    )


def _check_privacy(copies: Mapping[str, Message], targets: Sequence[SendTarget]) -> None:
    """See that what asks to be encrypted can be.

    It may not have been encrypted when it arrived; but a body for which its sender requested privacy is not
    sent unencrypted without an explicit request.

    @raise MQError: MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION.
    """
    direct = next((each.name for each in targets if each.has_no_key), None)
    asking = next((name for name, message in copies.items() if message.privacy_level), None)
    if direct is not None and asking is not None:
        raise MQError(
            Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION,
            f"{asking} requests encryption, and {direct} is a direct name, for which there is none;"
            " send it to a PUBLIC= or PRIVATE= name, or unencrypted with --in-clear",
        )
