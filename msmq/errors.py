"""Base classes of exceptions: the root of all, and the two kinds of protocol error.

Each package defines subclasses of these in its own modules.
Incomplete input is not an error; a parser returns ``None`` and waits.
"""

from __future__ import annotations


class MsmqError(Exception):
    """Base class of every exception that msmq raises on purpose."""


class LocalProtocolError(MsmqError):
    """The local caller requested something that the protocol cannot express.

    Raised for a value that does not fit its field or a call in the wrong state.
    No peer can cause it.
    """


class RemoteProtocolError(MsmqError):
    """A peer, or a file that claims to hold packets, broke a rule of the documents.

    This is the one exception that reading any structure raises.
    On a session it ends the session ([MS-MQQB] 3.1.5.1.3); a datagram that raises it is dropped.

    @ivar section: the address of the broken rule, for example C{[MS-MQMQ] 2.2.19.1}.
    @ivar header: the document's name of the structure, for example C{BaseHeader}.
    @ivar field: the document's name of the field, for example C{PacketSize}.
    @ivar offset: where the field begins, in bytes from the start of the packet.
    @ivar rule: the rule for the field, in words.
    """

    def __init__(self, section: str, header: str, field: str, offset: int, rule: str) -> None:
        super().__init__(section, header, field, offset, rule)
        self.section = section
        self.header = header
        self.field = field
        self.offset = offset
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.section} {self.header}.{self.field} at offset {self.offset}: {self.rule}"
