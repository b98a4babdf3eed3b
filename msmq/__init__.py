"""An open Microsoft Message Queuing queue manager, and a framework for building others.

The public names are imported lazily, so that a program that uses only the structures imports nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmq.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from msmq.broker.broker import Broker
    from msmq.broker.outcomes import Outcome, accept, later, reject
    from msmq.decoding.bodies import BodyDecoders
    from msmq.errors import LocalProtocolError, MsmqError, RemoteProtocolError
    from msmq.interfaces import (
        Body,
        IBodyDecoder,
        IBroker,
        IClock,
        IMessageStore,
        IQueueManager,
        ISession,
        ITransaction,
        ReceivedMessage,
    )
    from msmq.manager.applications.open_queue import OpenQueue
    from msmq.manager.service import QueueManagerService
    from msmq.net.coroutines import in_asyncio
    from msmq.net.dialling_session_factory import DiallingSessionFactory
    from msmq.net.directory_search import FoundDirectoryServers, find_directory_servers
    from msmq.net.resolver import NextHopAddress
    from msmq.net.session import SessionProtocol
    from msmq.net.session_factory import SessionFactory
    from msmq.net.session_hooks import SessionHooks
    from msmq.queues.arriving.message import Acknowledge, Delivery, Message
    from msmq.queues.arriving.packet_builder import build_packet
    from msmq.queues.reading.descriptor import QueueAccessType, QueueShareMode
    from msmq.queues.reading.seek import MessageSeekAction
    from msmq.sender.deliveries import NotDelivered
    from msmq.sender.sender import ConnectedPeer, Sender, connect
    from msmq.service.configuration import ConfigurationError, Overrides, load
    from msmq.service.directory_servers import DirectoryServerProtocol
    from msmq.service.process.steady_timers import keep_timers_steady
    from msmq.service.replacements import ServerPingProtocol
    from msmq.service.server import Server
    from msmq.service.settings import Configuration
    from msmq.session.descriptor_shares import DescriptorShares
    from msmq.session.effects import CloseReason
    from msmq.session.outgoing import OutgoingPacket
    from msmq.settings import SessionSettings
    from msmq.structures.algorithms import AuthenticationLevel, PrivacyLevel
    from msmq.structures.identifiers import MessageIdentifier
    from msmq.structures.internal.classification import PacketKind, classify
    from msmq.structures.packet.message_class import MessageClass
    from msmq.structures.packet.outgoing_message import OutgoingMessage
    from msmq.structures.packet.user_message_view import UserMessageView, measure_user_message
    from msmq.structures.status import MQError, Status
    from msmq.version import __version__
    from msmq.wire.framer import StreamFramer

__all__ = [
    "Acknowledge",
    "AuthenticationLevel",
    "Body",
    "BodyDecoders",
    "Broker",
    "CloseReason",
    "Configuration",
    "ConfigurationError",
    "ConnectedPeer",
    "Delivery",
    "DescriptorShares",
    "DiallingSessionFactory",
    "DirectoryServerProtocol",
    "FoundDirectoryServers",
    "IBodyDecoder",
    "IBroker",
    "IClock",
    "IMessageStore",
    "IQueueManager",
    "ISession",
    "ITransaction",
    "LocalProtocolError",
    "MQError",
    "Message",
    "MessageClass",
    "MessageIdentifier",
    "MessageSeekAction",
    "MsmqError",
    "NextHopAddress",
    "NotDelivered",
    "OpenQueue",
    "Outcome",
    "OutgoingMessage",
    "OutgoingPacket",
    "Overrides",
    "PacketKind",
    "PrivacyLevel",
    "QueueAccessType",
    "QueueManagerService",
    "QueueShareMode",
    "ReceivedMessage",
    "RemoteProtocolError",
    "Sender",
    "Server",
    "ServerPingProtocol",
    "SessionFactory",
    "SessionHooks",
    "SessionProtocol",
    "SessionSettings",
    "Status",
    "StreamFramer",
    "UserMessageView",
    "__version__",
    "accept",
    "build_packet",
    "classify",
    "connect",
    "find_directory_servers",
    "in_asyncio",
    "keep_timers_steady",
    "later",
    "load",
    "measure_user_message",
    "reject",
]

_MODULES: Final = {
    "msmq.broker.broker": ("Broker",),
    "msmq.broker.outcomes": ("Outcome", "accept", "later", "reject"),
    "msmq.decoding.bodies": ("BodyDecoders",),
    "msmq.errors": ("LocalProtocolError", "MsmqError", "RemoteProtocolError"),
    "msmq.interfaces": (
        "Body",
        "IBodyDecoder",
        "IBroker",
        "IClock",
        "IMessageStore",
        "IQueueManager",
        "ISession",
        "ITransaction",
        "ReceivedMessage",
    ),
    "msmq.manager.applications.open_queue": ("OpenQueue",),
    "msmq.manager.service": ("QueueManagerService",),
    "msmq.net.coroutines": ("in_asyncio",),
    "msmq.net.dialling_session_factory": ("DiallingSessionFactory",),
    "msmq.net.directory_search": ("FoundDirectoryServers", "find_directory_servers"),
    "msmq.net.resolver": ("NextHopAddress",),
    "msmq.net.session": ("SessionProtocol",),
    "msmq.net.session_factory": ("SessionFactory",),
    "msmq.net.session_hooks": ("SessionHooks",),
    "msmq.queues.arriving.message": ("Acknowledge", "Delivery", "Message"),
    "msmq.queues.arriving.packet_builder": ("build_packet",),
    "msmq.queues.reading.descriptor": ("QueueAccessType", "QueueShareMode"),
    "msmq.queues.reading.seek": ("MessageSeekAction",),
    "msmq.sender.deliveries": ("NotDelivered",),
    "msmq.sender.sender": ("ConnectedPeer", "Sender", "connect"),
    "msmq.service.configuration": ("ConfigurationError", "Overrides", "load"),
    "msmq.service.directory_servers": ("DirectoryServerProtocol",),
    "msmq.service.process.steady_timers": ("keep_timers_steady",),
    "msmq.service.replacements": ("ServerPingProtocol",),
    "msmq.service.server": ("Server",),
    "msmq.service.settings": ("Configuration",),
    "msmq.session.descriptor_shares": ("DescriptorShares",),
    "msmq.session.effects": ("CloseReason",),
    "msmq.session.outgoing": ("OutgoingPacket",),
    "msmq.settings": ("SessionSettings",),
    "msmq.structures.algorithms": ("AuthenticationLevel", "PrivacyLevel"),
    "msmq.structures.identifiers": ("MessageIdentifier",),
    "msmq.structures.internal.classification": ("PacketKind", "classify"),
    "msmq.structures.packet.message_class": ("MessageClass",),
    "msmq.structures.packet.outgoing_message": ("OutgoingMessage",),
    "msmq.structures.packet.user_message_view": ("UserMessageView", "measure_user_message"),
    "msmq.structures.status": ("MQError", "Status"),
    "msmq.version": ("__version__",),
    "msmq.wire.framer": ("StreamFramer",),
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(__name__, _MODULES)
