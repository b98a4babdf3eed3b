"""Whom messages are taken from whose sender nobody can verify.

Nothing in a session proves who the peer is ([MS-MQQB] 2.2.3), and what is sent to a direct name is not
signed ([MS-MQQB] 5.1), so that the address of the connection is all there is to go by.
"""

from __future__ import annotations

import enum

import attrs

from msmq.wire.addresses import AddressSet, is_loopback


class Unauthenticated(enum.Enum):
    """From where messages are taken whose sender is not verified."""

    LOOPBACK = "loopback"
    DENY = "deny"
    ALLOW = "allow"


@attrs.frozen
class Gate:
    """The first thing that a message meets that came for a queue of ours.

    @ivar unauthenticated: LOOPBACK takes it from this machine and from the peers, ALLOW from everybody, DENY
        from nobody.
    @ivar peers: addresses that are as good as this machine.
    """

    unauthenticated: Unauthenticated = Unauthenticated.LOOPBACK
    peers: AddressSet = attrs.field(factory=AddressSet)

    def admits(self, address: str) -> bool:
        """Whether a message without a verified sender may come over a connection from this address."""
        if self.unauthenticated is Unauthenticated.LOOPBACK:
            return is_loopback(address) or address in self.peers
        return self.unauthenticated is Unauthenticated.ALLOW

    def refusal(self, address: str) -> str:
        """Why it may not, and which line of the configuration would let it in."""
        if self.unauthenticated is Unauthenticated.DENY:
            line = 'unauthenticated = "loopback"'
            if not is_loopback(address):
                line += f' with peers = ["{address}"]'
        else:
            line = f'peers = ["{address}"]'
        return f"nothing verifies who sent it; {line} under [security] in the configuration would admit it"
