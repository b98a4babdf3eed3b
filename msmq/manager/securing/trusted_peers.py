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
    """From where messages are taken whose sender is not verified."""

    LOOPBACK = "loopback"
    DENY = "deny"
    ALLOW = "allow"


@attrs.define
class TrustedPeers:
    """The first thing that a message meets that came for a queue of ours.

    A signed one passes; whether the signature proves anything is found later, and asked here again.

    @ivar unauthenticated: LOOPBACK accepts this machine and the peers, ALLOW any address, DENY
        none.
    @ivar peers: addresses that are as good as this machine.
    @ivar acknowledgers: addresses that may say what became of messages to queues that are not named by an
        address; all, if none is there.
    """

    message_class = MessageClass.NACK_ACCESS_DENIED

    unauthenticated: Unauthenticated = Unauthenticated.LOOPBACK
    peers: AddressSet = attrs.field(factory=AddressSet)
    acknowledgers: AddressSet = attrs.field(factory=AddressSet)

    def configure(self, other: TrustedPeers) -> None:
        """Trust what C{other} trusts: whatever holds this object decides by that from now on."""
        self.unauthenticated = other.unauthenticated
        self.peers = other.peers
        self.acknowledgers = other.acknowledgers

    def admits(self, address: str) -> bool:
        """Whether a message without a verified sender may come over a connection from this address."""
        if self.unauthenticated is Unauthenticated.LOOPBACK:
            return is_loopback(address) or address in self.peers
        return self.unauthenticated is Unauthenticated.ALLOW

    def is_trusted(self, address: str) -> bool:
        """Whether this address is configured or of this machine; C{ALLOW} alone trusts none."""
        return self.admits(address) and (is_loopback(address) or address in self.peers)

    def may_acknowledge(self, address: str) -> bool:
        """Whether a peer at this address may acknowledge messages to PRIVATE= and PUBLIC= names."""
        if not self.acknowledgers or address in self.acknowledgers or address in self.peers:
            return True
        # What is no address of IP is the other end of a connection within this machine.
        return is_loopback(address) or read_address(address) is None

    def vouches(self, address: str) -> bool:
        """Whether the configuration says of this address that it may."""
        return self.admits(address) or (bool(self.acknowledgers) and self.may_acknowledge(address))

    def guards(self, session: ISession, queue: Queue) -> bool:
        """Whether it has anything against messages that are not signed."""
        return not self.admits(session.remote_address)

    def check(self, session: ISession, queue: Queue, message: Accepted) -> Outcome:
        """Refuse what is not signed, if it comes from an address that is not trusted."""
        if message.is_signed or self.admits(session.remote_address):
            return message
        return Refused(self.message_class, self.refusal(session.remote_address))

    def refusal(self, address: str) -> str:
        """Why it may not, and which line of the configuration would let it in."""
        line = f'peers = ["{address}"]'
        if read_address(address) is None:
            # It is no connection over IP, so no list of addresses has it.
            line = 'unauthenticated = "allow"'
        elif self.unauthenticated is Unauthenticated.DENY:
            line = 'unauthenticated = "loopback"' + ("" if is_loopback(address) else f" with {line}")
        return f"nothing verifies who sent it; {line} under [security] in the configuration would admit it"
