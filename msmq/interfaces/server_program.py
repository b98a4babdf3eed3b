"""IServerProgram: a program of an application inside a server, such as a broker."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface


class IServerProgram(Interface):
    """A program that works with the queue manager of a server, and starts and stops with it."""

    session_protocol: Any = Attribute(
        "Creates a session from a session factory and a session core, as C{SessionProtocol} does."
    )

    def prepare(manager: Any) -> Awaitable[None]:
        """The queue manager is open, and its server does not listen yet.

        @param manager: the L{QueueManagerService<msmq.manager.service.QueueManagerService>}.
        @raise msmq.errors.MsmqError: it cannot work with it; the server does not start.
        """

    def begin() -> None:
        """The server has started."""

    def end() -> Deferred[None]:
        """The server stops: end everything under way; the queue manager stops afterwards."""
