"""The accepted connections of a session factory by host, and which of them to close for a new one."""

from __future__ import annotations

from msmq.net.session import SessionProtocol
from msmq.wire.addresses import connected_host


class AcceptedConnections:
    """Accepted connections by L{connected_host<msmq.wire.addresses.connected_host>}."""

    def __init__(self) -> None:
        self._of_host: dict[str, dict[SessionProtocol, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, host: str) -> int:
        """How many a host has."""
        return len(self._of_host.get(connected_host(host), ()))

    def add(self, connection: SessionProtocol) -> None:
        """A connection was accepted."""
        self._of_host.setdefault(connected_host(connection.remote_address), {})[connection] = None
        self._count += 1

    def discard(self, connection: SessionProtocol) -> None:
        """A connection has ended, or is being closed; one that is not here changes nothing."""
        host = connected_host(connection.remote_address)
        of_host = self._of_host.get(host, {})
        if connection not in of_host:
            return
        del of_host[connection]
        self._count -= 1
        if not of_host:
            del self._of_host[host]

    def idlest_of_the_greatest(self) -> SessionProtocol | None:
        """The connection on which nothing has passed for longest, of the host that has most.

        Of several hosts with as many it is the idlest of all of them, so that no host loses what it uses to
        another that only holds connections.
        """
        if not self._of_host:
            return None
        most = max(map(len, self._of_host.values()))
        return min(
            (each for of_host in self._of_host.values() if len(of_host) == most for each in of_host),
            key=last_activity,
        )


def last_activity(connection: SessionProtocol) -> float:
    """When anything last passed on a connection; what passed later is greater.

    A connection on which nothing has passed yet is the idlest.
    """
    return max(connection.last_heard or 0.0, connection.last_sent or 0.0)
