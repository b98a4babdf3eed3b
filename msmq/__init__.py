"""An open Microsoft Message Queuing queue manager, and a framework for building others.

The public names are imported lazily, so that a program that uses only the structures imports nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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
    from msmq.service.configuration import Overrides, load
    from msmq.service.directory_servers import DirectoryServerProtocol
    from msmq.service.replacements import ServerPingProtocol
    from msmq.service.server import Server
    from msmq.session.descriptor_shares import DescriptorShares
    from msmq.session.effects import CloseReason
    from msmq.session.outgoing import OutgoingPacket
    from msmq.settings import SessionSettings
    from msmq.structures.algorithms import AuthenticationLevel, PrivacyLevel
    from msmq.structures.identifiers import MessageIdentifier
    from msmq.structures.packet.message_class import MessageClass
    from msmq.structures.packet.outgoing_message import OutgoingMessage
    from msmq.structures.packet.user_message_view import UserMessageView
    from msmq.structures.status import MQError, Status
    from msmq.version import __version__

_HOMES = {
    "Acknowledge": "msmq.queues.arriving.message",
    "AuthenticationLevel": "msmq.structures.algorithms",
    "Body": "msmq.interfaces",
    "Broker": "msmq.broker.broker",
    "BodyDecoders": "msmq.decoding.bodies",
    "CloseReason": "msmq.session.effects",
    "ConnectedPeer": "msmq.sender.sender",
    "Delivery": "msmq.queues.arriving.message",
    "DescriptorShares": "msmq.session.descriptor_shares",
    "DiallingSessionFactory": "msmq.net.dialling_session_factory",
    "DirectoryServerProtocol": "msmq.service.directory_servers",
    "FoundDirectoryServers": "msmq.net.directory_search",
    "IBodyDecoder": "msmq.interfaces",
    "IBroker": "msmq.interfaces",
    "IClock": "msmq.interfaces",
    "IMessageStore": "msmq.interfaces",
    "IQueueManager": "msmq.interfaces",
    "ISession": "msmq.interfaces",
    "ITransaction": "msmq.interfaces",
    "LocalProtocolError": "msmq.errors",
    "MQError": "msmq.structures.status",
    "Message": "msmq.queues.arriving.message",
    "MessageClass": "msmq.structures.packet.message_class",
    "MessageIdentifier": "msmq.structures.identifiers",
    "MessageSeekAction": "msmq.queues.reading.seek",
    "MsmqError": "msmq.errors",
    "Outcome": "msmq.broker.outcomes",
    "OpenQueue": "msmq.manager.applications.open_queue",
    "NextHopAddress": "msmq.net.resolver",
    "NotDelivered": "msmq.sender.deliveries",
    "OutgoingMessage": "msmq.structures.packet.outgoing_message",
    "OutgoingPacket": "msmq.session.outgoing",
    "Overrides": "msmq.service.configuration",
    "PrivacyLevel": "msmq.structures.algorithms",
    "QueueAccessType": "msmq.queues.reading.descriptor",
    "QueueManagerService": "msmq.manager.service",
    "QueueShareMode": "msmq.queues.reading.descriptor",
    "ReceivedMessage": "msmq.interfaces",
    "RemoteProtocolError": "msmq.errors",
    "Sender": "msmq.sender.sender",
    "Server": "msmq.service.server",
    "ServerPingProtocol": "msmq.service.replacements",
    "SessionFactory": "msmq.net.session_factory",
    "SessionHooks": "msmq.net.session_hooks",
    "SessionProtocol": "msmq.net.session",
    "SessionSettings": "msmq.settings",
    "Status": "msmq.structures.status",
    "UserMessageView": "msmq.structures.packet.user_message_view",
    "__version__": "msmq.version",
    "accept": "msmq.broker.outcomes",
    "build_packet": "msmq.queues.arriving.packet_builder",
    "connect": "msmq.sender.sender",
    "find_directory_servers": "msmq.net.directory_search",
    "in_asyncio": "msmq.net.coroutines",
    "later": "msmq.broker.outcomes",
    "load": "msmq.service.configuration",
    "reject": "msmq.broker.outcomes",
}

__all__ = [
    "Acknowledge",
    "AuthenticationLevel",
    "Body",
    "BodyDecoders",
    "Broker",
    "CloseReason",
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
    "UserMessageView",
    "__version__",
    "accept",
    "build_packet",
    "connect",
    "find_directory_servers",
    "in_asyncio",
    "later",
    "load",
    "reject",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
