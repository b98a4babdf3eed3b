"""Changes of who may do what, as they come in."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Final

import attrs

from msmq.control.protocol.refusals import invalid
from msmq.control.server.properties import shown, text
from msmq.control.server.requests import refuse_rest
from msmq.interfaces.access_summaries import AccessList
from msmq.interfaces.queue_manager import IAccessAdministration

_KEYS: Final = "action, principal and rights"
_ACTIONS: Final = ("allow", "deny", "revoke")


@attrs.frozen
class AclChange:
    """A change of the entries of one principal.

    @ivar action: C{allow}, C{deny} or C{revoke}.
    """

    action: str
    principal: str
    rights: Sequence[str]

    @property
    def details(self) -> dict[str, object]:
        """The principal and the queue."""
        return {"principal": self.principal, "rights": list(self.rights)}

    def ask(self, access: IAccessAdministration, path: str) -> Awaitable[AccessList]:
        """Have it done."""
        match self.action:
            case "allow":
                return access.allow(path, self.principal, self.rights)
            case "deny":
                return access.deny(path, self.principal, self.rights)
        return access.revoke(path, self.principal)


def read_acl_change(wanted: dict[str, Any]) -> AclChange:
    """What a request body says: C{action}, C{principal} and C{rights}.

    @raise MQError: it says something else.
    """
    action = text("action", wanted.pop("action", None))
    principal = text("principal", wanted.pop("principal", None))
    rights = wanted.pop("rights", [])
    refuse_rest(wanted, _KEYS)
    if not isinstance(rights, list):
        raise invalid(f"rights is a list of texts, not {shown(rights)}")
    words = [text("rights", right) for right in rights]
    if action not in _ACTIONS:
        raise invalid(f"action is allow, deny or revoke, not {shown(action)}")
    return AclChange(action, principal, words)
