"""Addresses that may send unauthenticated messages.

A session does not authenticate the peer ([MS-MQQB] 2.2.3), and messages to a direct name are not
signed ([MS-MQQB] 5.1), so that only the address of the connection identifies the peer.
"""

from __future__ import annotations

import enum

import attrs

from msmq.interfaces.session import ISession
from msmq.manager.securing.inspection import Accepted, Outcome, Refused
from msmq.queues.queue import Queue
from msmq.structures.packet.message_class import MessageClass
from msmq.wire.addresses import AddressSet, is_loopback, read_address


class Unauthenticated(enum.Enum):
    """The addresses that may send unauthenticated messages."""

    LOOPBACK = "loopback"
    DENY = "deny"
    ALLOW = "allow"


@attrs.define
class TrustedPeers:
    """The first check of messages for local queues: the sender's address.

    A signed message passes; its signature is verified later, and the address is then checked again if it does
    not authenticate the sender.

    @ivar unauthenticated: LOOPBACK accepts this machine and the peers, ALLOW any address, DENY
        none.
    @ivar peers: addresses that are trusted like this machine.
    @ivar acknowledgers: addresses from which acknowledgements for PRIVATE= and PUBLIC= names are accepted;
    empty for all.
    """

    name = "the check of the peer"
    message_class = MessageClass.NACK_ACCESS_DENIED

    unauthenticated: Unauthenticated = Unauthenticated.LOOPBACK
    peers: AddressSet = attrs.field(factory=AddressSet)
    acknowledgers: AddressSet = attrs.field(factory=AddressSet)

    def configure(self, other: TrustedPeers) -> None:
        """Take over the settings of C{other}, for all users of this object."""
        self.unauthenticated = other.unauthenticated
        self.peers = other.peers
        self.acknowledgers = other.acknowledgers

    def admits(self, address: str) -> bool:
        """Whether a message without a verified sender may come over a connection from this address."""
        if self.unauthenticated is Unauthenticated.LOOPBACK:
            return is_loopback(address) or address in self.peers
        return self.unauthenticated is Unauthenticated.ALLOW

    def is_trusted(self, address: str) -> bool:
        """Whether this address is configured or of this machine; C{ALLOW} does not make an address
        trusted.
        """
        return self.admits(address) and (is_loopback(address) or address in self.peers)

    def may_acknowledge(self, address: str) -> bool:
        """Whether a peer at this address may acknowledge messages to PRIVATE= and PUBLIC= names."""
        if not self.acknowledgers or address in self.acknowledgers or address in self.peers:
            return True
        # An address that is not an IP address is a connection within this machine.
        return is_loopback(address) or read_address(address) is None

    def accepts_acknowledgements(self, address: str) -> bool:
        """Whether C{acknowledgers} contains this address."""
        return self.admits(address) or (bool(self.acknowledgers) and self.may_acknowledge(address))

    def guards(self, session: ISession, queue: Queue) -> bool:
        """Whether unsigned messages of this session have to be refused."""
        return not self.admits(session.remote_address)

    def check(self, session: ISession, queue: Queue, message: Accepted) -> Outcome:
        """Refuse unsigned messages from addresses that are not trusted."""
        if message.is_signed or self.admits(session.remote_address):
            return message
        return Refused(self.message_class, self.refusal(session.remote_address), precedes_queue=True)

    def refusal(self, address: str) -> str:
        """The refusal, with the configuration line that would accept it."""
        line = f'peers = ["{address}"]'
        if read_address(address) is None:
            # It is not an IP connection, so lists of addresses do not apply.
            line = 'unauthenticated = "allow"'
        elif self.unauthenticated is Unauthenticated.DENY:
            line = 'unauthenticated = "loopback"' + ("" if is_loopback(address) else f" with {line}")
        return (
            f"its sender is not authenticated; {line} under [security] in the configuration would accept it"
        )
