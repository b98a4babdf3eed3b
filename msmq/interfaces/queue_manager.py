"""What an application, the control API among them, asks of a queue manager."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import attrs
from zope.interface import Attribute, Interface

from msmq.queues.message import Message
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.user_message_view import UserMessageView


@attrs.frozen
class ReceivedMessage:
    """A message in a queue of this queue manager.

    @ivar view: the packet as it arrived.
    @ivar lookup_id: its place in the queue ([MS-MQDMPR] 3.1.1.12 LookupIdentifier).
    @ivar arrived: when it came into the queue, in seconds since 1970-01-01 UTC.
    """

    view: UserMessageView = attrs.field(repr=False)
    lookup_id: int
    arrived: float


class IReservation(Interface):
    """Messages that one reader holds, and nobody else gets until it decides.

    The reservation of a peek holds nothing: it only shows, and both decisions do nothing.
    """

    messages: Sequence[ReceivedMessage] = Attribute("At least one message, in the order of the queue.")

    def confirm() -> Awaitable[None]:
        """Remove the messages; done once the removal is stored.

        @raise msmq.structures.status.MQError: it could not be; the messages are given back.
        """

    def release() -> None:
        """Give the messages back, each in its place; nothing if they are confirmed or given back."""


class IQueueManager(Interface):
    """A queue manager, as those see it who send and receive.

    Every refusal is an L{msmq.structures.status.MQError}.
    The mappings have the keys of the command's JSON output; whoever gets one may change it.
    """

    def status() -> Mapping[str, Any]:
        """What it is and how it does: identifier, name, version, state, counts."""

    def queues() -> Sequence[Mapping[str, Any]]:
        """Every queue of its own."""

    def queue(path: str) -> Mapping[str, Any]:
        """One queue, by its path or format name."""

    def create_queue(
        path: str,
        *,
        transactional: bool = False,
        journal: bool = False,
        log: bool = False,
        quota: int | None = None,
        journal_quota: int | None = None,
        label: str = "",
        authenticate: bool = False,
        privacy: str = "optional",
    ) -> Awaitable[Mapping[str, Any]]:
        """Make a queue and answer what L{queue} would.

        @param quota: kilobytes, as is C{journal_quota}; C{None} sets no limit.
        @param privacy: C{none}, C{optional} or C{body}.
        """

    def set_queue(path: str, properties: Mapping[str, Any]) -> Awaitable[Mapping[str, Any]]:
        """Give a queue other properties and answer what L{queue} would.

        @param properties: those of C{create_queue} that are to change; C{transactional} cannot.
        """

    def purge_queue(path: str) -> Awaitable[int]:
        """Remove all messages that are in a queue, and answer how many these were.

        Those that readers have leave too, whatever the readers decide, and are not counted.
        """

    def delete_queue(path: str) -> Awaitable[None]:
        """Remove a queue and all that is in it."""

    def send(destination: str, messages: Sequence[Message]) -> Awaitable[Sequence[MessageIdentifier]]:
        """Take these messages, and answer one identifier each, in their order.

        @param destination: a format name, several with commas, or the path of a local queue.
        @return: done once every recoverable message is on disk.
        """

    def reserve(
        queue: str, *, count: int = 1, timeout: float | None = None, peek: bool = False
    ) -> Awaitable[IReservation]:
        """Lock what is there, up to C{count} messages, or wait for the first.

        Cancelling the wait loses nothing.

        @param timeout: seconds; C{None} waits without a limit.
        @param peek: look only; the messages stay where they are, for everyone.
        @raise MQError: C{MQ_ERROR_IO_TIMEOUT} if nothing came.
        """

    def outgoing() -> Sequence[Mapping[str, Any]]:
        """Every outgoing queue."""

    def sessions() -> Sequence[Mapping[str, Any]]:
        """Every session, in both directions."""
