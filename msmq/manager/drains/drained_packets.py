"""Packets of messages that are drained: which identifier each has at the destination, and what it keeps."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import attrs

from msmq.manager.applications.search import message_of
from msmq.queues.arriving.acknowledgement import is_quiet
from msmq.queues.arriving.message import Acknowledge, Message
from msmq.queues.arriving.packet_builder import PacketBuilder
from msmq.structures.algorithms import PrivacyLevel
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.format_name import FormatName
from msmq.structures.packet.kept_packet import marked_for_dead_letters, marked_until_arrival
from msmq.structures.packet.message_class import APPLICATION_CLASS_MASK
from msmq.structures.packet.user_message_rewrites import patch_message_class
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from msmq.wire.guid import guid_from_bytes

_ARRIVAL = Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL


class DrainedPackets:
    """Builds the packets of one drain.

    A message keeps its identifier if the destination is a private or public name and the message is not
    transactional, as if this queue manager had routed it. A message to a direct name comes from its source,
    and a receiver refuses any other; a transactional message continues a sequence of its source. So these
    get a new identifier of this queue manager.

    If a message fails before the queue manager of the destination has it, it becomes a dead letter here; a
    transactional one also if that refuses it, and with C{acknowledge_to} any other, unless its sender has
    requested the acknowledgement of its receipt: a message has one administration queue.
    """

    def __init__(
        self,
        own: UUID,
        name: FormatName,
        owner: UUID | None,
        take_number: Callable[[], int],
        direct_name: Callable[[FormatName], FormatName],
        *,
        in_clear: bool,
        acknowledge_to: FormatName | None,
    ) -> None:
        """Create the builder for one destination.

        @param own: the identifier of this queue manager.
        @param owner: the queue manager of a public or private name.
        @param take_number: takes the next MessageID of this queue manager.
        @param direct_name: the direct name of a queue of this queue manager.
        @param in_clear: send what was to be encrypted without it.
        @param acknowledge_to: the administration queue of messages that are kept until their arrival is
            acknowledged; C{None} to keep none.
        """
        self._own = PacketBuilder(name, source=own, destination_queue_manager=owner)
        self._name = name
        self._owner = owner
        self._take_number = take_number
        self._direct_name = direct_name
        self._in_clear = in_clear
        self._acknowledge_to = acknowledge_to
        self._source = own
        self._builder = self._own

    def keeps_identifier(self, view: UserMessageView) -> bool:
        """Whether a message has the same identifier at the destination."""
        return not (view.is_transactional or isinstance(self._name, DirectFormatName))

    def packet(self, view: UserMessageView) -> UserMessageView:
        """The packet to send.

        @raise MQError: MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION if the message is to be encrypted;
            or as building a packet.
        """
        if _is_private(view) and not self._in_clear:
            raise MQError(
                Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION,
                f"message {view.identifier} requests encryption, with which it cannot be moved; drain with"
                " --in-clear, or receive the message",
            )
        copy = self._copy(view)
        is_kept = self._acknowledge_to is not None and not (
            view.is_transactional or copy.acknowledge or is_quiet(view)
        )
        if is_kept:
            copy = attrs.evolve(copy, acknowledge=_ARRIVAL, admin_queue=self._acknowledge_to)
        if not self.keeps_identifier(view):
            built = _of_class(self._own.view(copy, self._take_number(), view.sent_time), view)
            return UserMessageView(marked_until_arrival(built.packet)) if is_kept else built
        source = guid_from_bytes(view.source_queue_manager)
        if source != self._source:
            self._source = source
            self._builder = PacketBuilder(self._name, source=source, destination_queue_manager=self._owner)
        built = _of_class(self._builder.view(copy, view.message_id, view.sent_time), view)
        return UserMessageView(
            marked_until_arrival(built.packet) if is_kept else marked_for_dead_letters(built.packet)
        )

    def _copy(self, view: UserMessageView) -> Message:
        """The properties of the message, without those that its arrival here has settled."""
        message = message_of(view)
        admin = message.admin_queue
        if admin is not None and isinstance(self._name, DirectFormatName):
            # The destination may have no directory, which would say whose queue this is.
            admin = self._direct_name(admin)
        return attrs.evolve(
            message,
            acknowledge=Acknowledge.NONE if admin is None else message.acknowledge & ~_ARRIVAL,
            admin_queue=admin,
            message_class=view.message_class & APPLICATION_CLASS_MASK,
            journal=False,
            dead_letter=True,
            dead_letter_queue="",
            privacy_level=PrivacyLevel.NONE,
        )


def _is_private(view: UserMessageView) -> bool:
    security = view.security
    return view.asks_for_privacy or (security is not None and security.is_body_encrypted)


def _of_class(built: UserMessageView, view: UserMessageView) -> UserMessageView:
    """The packet with the class of its message, which may be one that no application here may send."""
    if built.message_class == view.message_class:
        return built
    return UserMessageView(patch_message_class(built, view.message_class))
