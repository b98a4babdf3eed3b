"""IOutwardMapping and IInwardMapping: mappings of messages by a program, beyond what a route can say."""

from __future__ import annotations

from zope.interface import Interface

from msmq.interfaces.bridge_messages import AmqpMessage, MessageForQueue, QueuedMessage


class IOutwardMapping(Interface):
    """Mapping of messages from a queue to a broker.

    A class that implements it is named by C{mapping} of a route; it is created without arguments, once for
    each route.
    Its method is called in the thread of the reactor, for each message and for each attempt to send it: it
    has to be fast, and give the same result for the same message.
    """

    def to_broker(message: QueuedMessage, mapped: AmqpMessage) -> AmqpMessage:
        """The message to publish.

        @param mapped: as the route would publish it; C{attrs.evolve} changes a copy of it.
        @raise MappingError: the message cannot be published; the text is the reason of its dead letter, as
            is that of any other exception.
        """


class IInwardMapping(Interface):
    """Mapping of messages from a broker to a queue; as L{IOutwardMapping}."""

    def to_queue(message: AmqpMessage, mapped: MessageForQueue) -> MessageForQueue:
        """The message to send.

        @param mapped: as the route would send it. Its key makes the queue manager recognise a message that
            the broker delivers again, its extension has the routes that the message has passed.
        @raise MappingError: as of L{IOutwardMapping.to_broker}.
        """
