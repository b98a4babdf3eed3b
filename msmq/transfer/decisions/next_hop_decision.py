"""Decisions about routes: the next hop of an outgoing queue, and the session that an acknowledgement takes.

[MS-MQQB] 3.1.7.4, 3.1.7.5 and 3.1.7.17; [MS-MQBR] defines the next hops of names that are not direct.
Stated identifiers are not authenticated, so an acknowledgement for an address is sent only there, unless its
addressee is confirmed to have moved (readings 28 and 60).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeAlias, TypeVar
from uuid import UUID

import attrs

from msmq.structures.names.format_name import FormatName

Key: TypeAlias = str | UUID | tuple[UUID, ...]
"""The key of a next hop: an address, a queue manager, or several queue managers."""


class NamedHop(Protocol):
    """A queue manager that routing returned as a next hop."""

    @property
    def identifier(self) -> UUID: ...


H = TypeVar("H", bound=NamedHop)
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


@attrs.frozen
class NextHopChoice(Generic[H]):
    """The next hop of an outgoing queue; queues with equal keys share one.

    @ivar host: the address or computer name that is dialled; C{None} for other names than direct ones.
    @ivar routed: the queue managers of which the first reachable one is used; empty if only a session that
    the peer opens can be used.
    """

    key: Key
    host: str | None = None
    routed: tuple[H, ...] = ()


def dialled_hop(host: str) -> NextHopChoice[H]:
    """The next hop of a direct name: names of one host, however it is written, share it.

    @param host: the address in the name, or the one to which an operator has redirected it.
    """
    return NextHopChoice(host.lower().rstrip("."), host)


def routed_hop(
    name: FormatName, owner: UUID | None, hops: Sequence[H], is_paused: Callable[[H], bool]
) -> NextHopChoice[H]:
    """The next hop of any other name. [MS-MQQB] 3.1.7.4, 3.1.7.5.

    @param owner: the queue manager of the queue; C{None} while it is unknown.
    @param hops: the queue managers from routing, the best first; empty without a route, when only a session
    with the owner is used.
    @param is_paused: whether an operator has paused a next hop: others are used if possible.
    """
    if owner is None:
        return NextHopChoice(str(name))
    routed = tuple(hop for hop in hops if not is_paused(hop)) or tuple(hops)
    if not routed:
        return NextHopChoice(owner)
    return NextHopChoice(tuple(hop.identifier for hop in routed), None, routed)


@attrs.frozen(kw_only=True)
class MovedSenderFacts:
    """The facts about a session whose peer states the identifier of a sender, at another address.

    @ivar is_stated: the peer states that identifier.
    @ivar is_listed: the directory knows that queue manager.
    @ivar is_dialled: this queue manager has dialled its computer, as named in the directory.
    @ivar is_named: the session is with its address in the directory; C{None} if the directory has none.
    @ivar is_unanswered: the address from which the messages came was dialled without success, and has not
        answered since.
    @ivar is_trusted: the configuration lists the address of the session, or it is of this computer.
    """

    is_stated: bool
    is_listed: bool
    is_dialled: bool
    is_named: bool | None
    is_unanswered: bool
    is_trusted: bool


def is_moved_sender(facts: MovedSenderFacts) -> bool:
    """Whether a session at another address is confirmed to lead to the sender (reading 60).

    The directory confirms it, or, where the directory names no address, the configuration.
    """
    if not facts.is_stated:
        return False
    if facts.is_listed:
        if facts.is_dialled:
            return True
        if facts.is_named is not None:
            return facts.is_named
    return facts.is_unanswered and facts.is_trusted


class Carriers(Protocol[S_co]):
    """The open sessions that may carry one acknowledgement.

    Each method returns C{None} if there is no such session.
    """

    def at_address(self, addressee: UUID, address: str, /) -> S_co | None:
        """The one with the addressee at the address to which the acknowledgement is addressed."""

    def moved(self, addressee: UUID, /) -> S_co | None:
        """A session confirmed to lead to the addressee at another address, by L{is_moved_sender}."""

    def of_addressee(self, addressee: UUID, /) -> S_co | None:
        """The one whose peer states the identifier of the addressee."""

    def of_router(self, addressee: UUID, /) -> S_co | None:
        """The one whose peer forwarded messages of the addressee last."""

    def dialled(self) -> S_co | None:
        """The one that the next hop of the queue has dialled."""

    def of_next_hop(self) -> S_co | None:
        """Any with the next hop of the queue, whichever side opened it."""


def carrier_of(
    addressee: UUID | None, address: str | None, carriers: Carriers[S], *, is_for_host: bool, trusts: bool
) -> S | None:
    """The session on which an acknowledgement is sent; C{None} if it has to wait for one. [MS-MQQB] 3.1.7.17.

    @param addressee: the sender of the acknowledged message; C{None} if that is not known.
    @param address: the address in the name of its queue, if there is one.
    @param is_for_host: its next hop is a host, and not a queue manager.
    @param trusts: C{trust_identifiers}: an identifier is trusted at any address.
    """
    found: S | None = None
    if addressee is not None:
        found = None if address is None else carriers.at_address(addressee, address)
        if found is None:
            if address is not None and not trusts:
                found = carriers.moved(addressee)
            else:
                found = carriers.of_addressee(addressee) or carriers.of_router(addressee)
    if found is not None:
        return found
    # An acknowledgement for an address is not for an identifier that a peer there has stated.
    return carriers.dialled() if is_for_host and not trusts else carriers.of_next_hop()


@attrs.frozen(kw_only=True)
class CarriedFacts:
    """The facts about an acknowledgement and a session that may carry it.

    @ivar addressee: the sender of the acknowledged message; C{None} if that is not known.
    @ivar router: the queue manager that forwarded messages of the addressee last.
    @ivar address: the address in the name of its queue, if there is one.
    @ivar peer: the identifier that the peer of the session states.
    @ivar peer_address: the address of the session.
    @ivar trusts: as for L{carrier_of}.
    """

    addressee: UUID | None
    router: UUID | None
    address: str | None
    peer: UUID | None
    peer_address: str
    trusts: bool


def is_carried(facts: CarriedFacts, is_moved: Callable[[], bool]) -> bool:
    """Whether a session may carry an acknowledgement: its peer is the addressee, or its router.

    @param is_moved: L{is_moved_sender} of the session; evaluated only if necessary.
    """
    if facts.addressee is None or facts.peer is None:
        return False
    if facts.peer not in (facts.addressee, facts.router):
        return False
    if facts.trusts or facts.address in (None, facts.peer_address):
        return True
    return is_moved()


REPORTED_AFTER: Final = 600.0
"""Seconds without an answer after which it is reported that acknowledgements wait for an address."""


def is_wait_reported(
    unanswered_for: float | None, waiting: frozenset[UUID], reported: frozenset[UUID]
) -> bool:
    """Whether it is reported now that acknowledgements wait for an address that does not answer.

    It is reported once, and again when they are for other senders.

    @param unanswered_for: seconds since it was dialled without success first; C{None} if it answered last.
    @param waiting: the senders for which no session will do.
    @param reported: those that were reported since the address answered last.
    """
    if unanswered_for is None or unanswered_for < REPORTED_AFTER:
        return False
    return not waiting <= reported
