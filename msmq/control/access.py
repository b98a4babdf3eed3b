"""Changes of who may do what, as they come in."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Final

from msmq.control.properties import text
from msmq.control.refusals import invalid
from msmq.control.requests import refuse_rest
from msmq.interfaces.queue_manager import IQueueManager

_KEYS: Final = "action, principal and rights"


def change_acl(manager: IQueueManager, path: str, wanted: dict[str, Any]) -> Awaitable[Mapping[str, Any]]:
    """Do what a request body says: C{action}, which is allow, deny or revoke, C{principal} and C{rights}.

    @raise MQError: it says something else; or as L{IQueueManager.allow}.
    """
    action = text("action", wanted.pop("action", None))
    principal = text("principal", wanted.pop("principal", None))
    rights = wanted.pop("rights", [])
    refuse_rest(wanted, _KEYS)
    if not isinstance(rights, list):
        raise invalid(f"rights is a list of texts, not {rights!r}")
    words = [text("rights", right) for right in rights]
    match action:
        case "allow":
            return manager.allow(path, principal, words)
        case "deny":
            return manager.deny(path, principal, words)
        case "revoke":
            return manager.revoke(path, principal)
    raise invalid(f"action is allow, deny or revoke, not {action!r}")
