"""The role that each route of the console needs, like L{msmq.control.authentication.roles} for the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msmq.control.authentication.roles import Role
from msmq.web.access.identity import Identity
from msmq.web.access.request import LOGIN

OPEN: Final = frozenset({LOGIN, "/assets/console.css", "/assets/live.js"})
"""Routes that need no token."""

PAGE_ROLES: Final[Mapping[tuple[str, str], Role]] = {
    ("POST", "/logout"): Role.MONITOR,
    ("POST", "/queue/create"): Role.ADMIN,
    ("POST", "/queue/set"): Role.ADMIN,
    ("POST", "/queue/delete"): Role.ADMIN,
    ("POST", "/queue/pause"): Role.OPERATOR,
    ("POST", "/queue/resume"): Role.OPERATOR,
    ("POST", "/queue/purge"): Role.OPERATOR,
    ("POST", "/queue/replay"): Role.OPERATOR,
    ("POST", "/messages/remove"): Role.OPERATOR,
    ("POST", "/messages/move"): Role.OPERATOR,
    ("POST", "/messages/copy"): Role.OPERATOR,
    # It changes nothing; the selected messages are fields of a form.
    ("POST", "/messages/export"): Role.READER,
    # The form is of no use without the change.
    ("GET", "/message/resend"): Role.OPERATOR,
    ("POST", "/message/resend"): Role.OPERATOR,
    ("GET", "/deadletters/requeue"): Role.OPERATOR,
    ("POST", "/deadletters/requeue"): Role.OPERATOR,
    ("POST", "/outgoing/retry"): Role.OPERATOR,
    ("POST", "/outgoing_queue/pause"): Role.OPERATOR,
    ("POST", "/outgoing_queue/resume"): Role.OPERATOR,
    ("POST", "/outgoing_queue/retry"): Role.OPERATOR,
    ("POST", "/outgoing_queue/purge"): Role.OPERATOR,
    # A redirect sends messages to a computer of the caller's choice.
    ("POST", "/outgoing_queue/redirect"): Role.ADMIN,
    ("POST", "/session/close"): Role.OPERATOR,
    ("POST", "/transaction/abort"): Role.OPERATOR,
    # It names files and accounts of this machine.
    ("GET", "/configuration"): Role.OPERATOR,
    ("POST", "/configuration/reload"): Role.ADMIN,
}
"""The least role by method and route of a page that changes something, or needs another role than
C{reader}.
"""


def page_role(method: str, route: str) -> Role | None:
    """The least role for a page; C{None} if it needs no token.

    A page that is not in the table needs C{reader}, and any other method than GET and HEAD C{admin}.
    """
    if route in OPEN:
        return None
    reads = method in ("GET", "HEAD")
    return PAGE_ROLES.get(("GET" if reads else method, route), Role.READER if reads else Role.ADMIN)


def offers(identity: Identity | None, method: str, route: str) -> bool:
    """Whether a page shows the caller a button or a link for a route."""
    role = page_role(method, route)
    return role is None or (identity is not None and identity.may(role))
