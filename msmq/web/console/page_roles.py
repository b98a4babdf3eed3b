"""The role that each route of the console needs, like L{msmq.control.authentication.roles} for the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msmq.control.authentication.roles import Role
from msmq.web.access.request import LOGIN

OPEN: Final = frozenset({LOGIN, "/assets/console.css"})
"""Routes that need no token."""

PAGE_ROLES: Final[Mapping[tuple[str, str], Role]] = {
    ("POST", "/logout"): Role.MONITOR,
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
