"""Protocol of an outgoing message, as sessions and streams need it. [MS-MQQB] 3.1.1.3.1.2."""

from __future__ import annotations

from typing import Protocol


class OutgoingMessage(Protocol):
    """The interface of a message that a session sends. [MS-MQQB] 3.1.1.3.1.2.

    The session returns the same objects when they are acknowledged, or when it closes before.
    """

    @property
    def packet(self) -> bytes:
        """The UserMessage packet, without a SessionHeader."""

    @property
    def is_recoverable(self) -> bool:
        """Whether the peer has to store it before acknowledging it."""
