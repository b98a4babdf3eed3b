"""Roles of API tokens, and the role that each route of the control API needs.

The table is the only place that decides this; a route that is missing from it needs the role C{admin}.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class Role(IntEnum):
    """The rights of a token; each role includes those before it."""

    MONITOR = 1
    """Metrics, health, and the figures of the queue manager as a whole."""

    READER = 2
    """Queues, messages, the event log and the configuration of the enterprise; no changes."""

    OPERATOR = 3
    """Send, receive, move, requeue, purge, pause."""

    ADMIN = 4
    """Everything: queues and their access lists, certificates, quotas, reload."""

    def __str__(self) -> str:
        return self.name.lower()

    @classmethod
    def parse(cls, text: str) -> Role | None:
        """The role with this name, as token files have it; C{None} if there is none."""
        return next((role for role in cls if str(role) == text), None)


_QUEUE: Final = "/v1/queues/<path:path>"
_OUTGOING: Final = "/v1/outgoing/<path:name>"
_DRAIN: Final = "/v1/drains/<path:path>"
_SHADOW: Final = "/v1/shadows/<path:path>"

ROUTE_ROLES: Final[Mapping[tuple[str, str], Role]] = {
    ("GET", "/v1/status"): Role.MONITOR,
    # The queues that it names are those of /metrics.
    ("GET", "/v1/alarms"): Role.MONITOR,
    ("GET", "/v1/openapi.json"): Role.MONITOR,
    ("GET", "/v1/quotas"): Role.MONITOR,
    # Of some topics only; the resource checks the others.
    ("GET", "/v1/stream"): Role.MONITOR,
    ("GET", "/v1/archive"): Role.READER,
    ("GET", "/v1/bridges"): Role.READER,
    ("GET", "/v1/bridges/<name>"): Role.READER,
    ("GET", "/v1/drains"): Role.READER,
    ("GET", _DRAIN): Role.READER,
    ("GET", f"{_DRAIN}/identifiers"): Role.READER,
    ("GET", "/v1/shadows"): Role.READER,
    ("GET", _SHADOW): Role.READER,
    ("GET", f"{_SHADOW}/copies"): Role.READER,
    ("GET", "/v1/queues"): Role.READER,
    ("GET", "/v1/public_queues"): Role.READER,
    ("GET", _QUEUE): Role.READER,
    ("GET", f"{_QUEUE}/logged"): Role.READER,
    ("GET", f"{_QUEUE}/acl"): Role.READER,
    ("GET", f"{_QUEUE}/why"): Role.READER,
    ("GET", f"{_QUEUE}/messages"): Role.READER,
    ("GET", f"{_QUEUE}/messages/<int:lookup_id>"): Role.READER,
    # It computes a text and changes nothing.
    ("POST", "/v1/acl"): Role.READER,
    ("POST", "/v1/store"): Role.READER,
    ("GET", "/v1/certificates"): Role.READER,
    ("GET", "/v1/certificates/<fingerprint>"): Role.READER,
    ("GET", "/v1/control_servers"): Role.READER,
    ("GET", "/v1/control_servers/<name>"): Role.READER,
    ("GET", "/v1/deadletters"): Role.READER,
    ("GET", "/v1/deadletters/groups"): Role.READER,
    ("GET", "/v1/events"): Role.READER,
    ("GET", "/v1/messages/<path:message>"): Role.READER,
    ("GET", "/v1/outgoing"): Role.READER,
    ("GET", _OUTGOING): Role.READER,
    ("GET", "/v1/route"): Role.READER,
    ("GET", "/v1/sessions"): Role.READER,
    ("GET", "/v1/sessions/<identifier>"): Role.READER,
    ("GET", "/v1/topology"): Role.READER,
    ("GET", "/v1/transactions"): Role.READER,
    ("GET", "/v1/transactions/<identifier>"): Role.READER,
    # It names files and accounts of this machine.
    ("GET", "/v1/configuration"): Role.OPERATOR,
    ("POST", "/v1/archive/compact"): Role.OPERATOR,
    ("POST", "/v1/archive/erase"): Role.ADMIN,
    ("POST", "/v1/bridges/<name>/pause"): Role.OPERATOR,
    ("POST", "/v1/bridges/<name>/resume"): Role.OPERATOR,
    # It shows messages, and takes and returns those of a broker.
    ("POST", "/v1/bridges/<name>/test"): Role.OPERATOR,
    ("POST", f"{_QUEUE}/pause"): Role.OPERATOR,
    ("POST", f"{_QUEUE}/resume"): Role.OPERATOR,
    ("POST", f"{_QUEUE}/purge"): Role.OPERATOR,
    ("POST", f"{_QUEUE}/replay"): Role.OPERATOR,
    ("POST", f"{_QUEUE}/messages/copy"): Role.OPERATOR,
    ("POST", f"{_QUEUE}/messages/move"): Role.OPERATOR,
    ("POST", f"{_QUEUE}/messages/remove"): Role.OPERATOR,
    ("POST", f"{_QUEUE}/messages/requeue"): Role.OPERATOR,
    ("POST", "/v1/deadletters/<path:message>/requeue"): Role.OPERATOR,
    ("POST", "/v1/messages/<path:message>/move"): Role.OPERATOR,
    # These GETs receive or send.
    ("GET", "/v1/messages"): Role.OPERATOR,
    ("GET", "/v1/receive"): Role.OPERATOR,
    ("GET", "/v1/send"): Role.OPERATOR,
    ("POST", "/v1/messages"): Role.OPERATOR,
    ("POST", "/v1/messages/receive"): Role.OPERATOR,
    ("POST", "/v1/receive"): Role.OPERATOR,
    ("POST", "/v1/receipts/<stream>/<receipt>"): Role.OPERATOR,
    ("POST", "/v1/send"): Role.OPERATOR,
    ("POST", "/v1/outgoing/pause"): Role.OPERATOR,
    ("POST", "/v1/outgoing/resume"): Role.OPERATOR,
    ("POST", "/v1/outgoing/retry"): Role.OPERATOR,
    ("POST", f"{_OUTGOING}/pause"): Role.OPERATOR,
    ("POST", f"{_OUTGOING}/resume"): Role.OPERATOR,
    ("POST", f"{_OUTGOING}/retry"): Role.OPERATOR,
    ("POST", f"{_OUTGOING}/purge"): Role.OPERATOR,
    ("POST", "/v1/sessions/<identifier>/close"): Role.OPERATOR,
    ("POST", "/v1/transactions/<identifier>/abort"): Role.OPERATOR,
    # A drain and a redirect send messages to a computer of the caller's choice.
    ("POST", _DRAIN): Role.ADMIN,
    ("DELETE", _DRAIN): Role.ADMIN,
    ("POST", f"{_OUTGOING}/redirect"): Role.ADMIN,
    ("POST", "/v1/certificates"): Role.ADMIN,
    ("DELETE", "/v1/certificates/<fingerprint>"): Role.ADMIN,
    ("POST", "/v1/certificates/<fingerprint>/publish"): Role.ADMIN,
    ("POST", "/v1/identity/keep"): Role.ADMIN,
    ("POST", "/v1/queues"): Role.ADMIN,
    ("PATCH", _QUEUE): Role.ADMIN,
    ("DELETE", _QUEUE): Role.ADMIN,
    ("POST", f"{_QUEUE}/acl"): Role.ADMIN,
    ("PATCH", "/v1/quotas"): Role.ADMIN,
    ("POST", "/v1/reload"): Role.ADMIN,
}
"""The least role by method and route, as the control API declares its routes."""


def required_role(method: str, route: str) -> Role:
    """The least role for a request.

    @param method: the HTTP method; HEAD needs what GET does.
    @param route: the route as the API declares it: C{/v1/queues/<path:path>}.
    """
    return ROUTE_ROLES.get(("GET" if method == "HEAD" else method, route), Role.ADMIN)
