"""Shares of the process's file descriptors, so that connections of one kind never use up those of another."""

from __future__ import annotations

from typing import Final

import attrs

SMALL: Final = 1024
"""Descriptors below which a server has little room; many systems give a process so many."""

_MOST_RESERVED: Final = 2048
_MOST_CONTROL: Final = 4096


@attrs.frozen(kw_only=True)
class DescriptorShares:
    """How many of the descriptors of a process each use may have, for C{shares} of a session factory.

    @ivar limit: all of them.
    @ivar reserved: for the store, the log, the directory, the listening sockets, and connections of web and
        those of remote control without a token, which have limits of their own.
    @ivar control: for connections to the control socket, and half of them for remote control where it is
        configured.
    @ivar outgoing: for connections to other queue managers that we dial.
    @ivar incoming: for connections that other queue managers dial, during the handshake and afterwards.
    """

    limit: int
    reserved: int
    control: int
    outgoing: int
    incoming: int

    @classmethod
    def of(cls, limit: int) -> DescriptorShares:
        """Half of what a process may open for peers, a quarter for dialling; a quarter is kept in reserve.

        Of a limit beyond 16,384 peers have more than half, since what is reserved no longer grows.

        @param limit: open descriptors of the process, at least 8.
        """
        reserved = min(limit // 8, _MOST_RESERVED)
        control = min(limit // 8, _MOST_CONTROL)
        outgoing = limit // 4
        return cls(
            limit=limit,
            reserved=reserved,
            control=control,
            outgoing=outgoing,
            incoming=limit - reserved - control - outgoing,
        )


@attrs.frozen(kw_only=True)
class DescriptorUse:
    """The connections of a queue manager and their limits, which follow from the descriptors of the process.

    @ivar limit: descriptors that the process may open.
    @ivar incoming: accepted connections, of at most C{incoming_limit}.
    @ivar outgoing: dialled connections and attempts, of at most C{outgoing_limit}.
    @ivar evicted: sessions that were closed for lack of a descriptor, in either direction.
    """

    limit: int
    incoming: int
    incoming_limit: int
    outgoing: int
    outgoing_limit: int
    evicted: int
