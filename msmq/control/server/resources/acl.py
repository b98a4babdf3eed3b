"""Resources for access control lists: show, change, explain a decision."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Final

import attrs
from klein import Klein

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.protocol.refusals import invalid
from msmq.control.server.http.disconnection import running
from msmq.control.server.http.requests import ControlRequest, parameters, refuse_rest, take
from msmq.control.server.http.responses import json_answer
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.messages.properties import flag, shown, text
from msmq.control.server.resources.context import ResourceContext, without_parameters
from msmq.interfaces.manager.access_administration import IAccessAdministration
from msmq.interfaces.manager.access_summaries import AccessList

_KEYS: Final = "action, principal and rights"
_ACTIONS: Final = ("allow", "deny", "revoke")


@attrs.frozen
class AclChange:
    """A change of one principal's entries in an access control list.

    @ivar action: C{allow}, C{deny} or C{revoke}.
    """

    action: str
    principal: str
    rights: Sequence[str]

    @property
    def details(self) -> dict[str, object]:
        """The principal and the queue, for the audit log."""
        return {"principal": self.principal, "rights": list(self.rights)}

    def ask(self, access: IAccessAdministration, path: str) -> Awaitable[AccessList]:
        """Perform the change."""
        match self.action:
            case "allow":
                return access.allow(path, self.principal, self.rights)
            case "deny":
                return access.deny(path, self.principal, self.rights)
        return access.revoke(path, self.principal)


def read_acl_change(wanted: dict[str, Any]) -> AclChange:
    """Parse the request body: C{action}, C{principal} and C{rights}.

    @raise MQError: the body has other keys or values.
    """
    action = text("action", wanted.pop("action", None))
    principal = text("principal", wanted.pop("principal", None))
    rights = wanted.pop("rights", [])
    refuse_rest(wanted, _KEYS)
    if not isinstance(rights, list):
        raise invalid(f"rights is a list of texts, not {shown(rights)}")
    words = [text("rights", right) for right in rights]
    if action not in _ACTIONS:
        raise invalid(f"action is allow, deny, revoke or replace, not {shown(action)}")
    return AclChange(action, principal, words)


def _read_entry(entry: object) -> tuple[str, str, Sequence[str]]:
    if not isinstance(entry, dict):
        raise invalid(f"an entry is an object with action, principal and rights, not {shown(entry)}")
    found = read_acl_change(dict(entry))
    if found.action == "revoke":
        raise invalid("action of an entry is allow or deny, not revoke")
    return found.action, found.principal, found.rights


class AccessResources:
    """The access control lists of queues, and of the queue manager, which is named C{.}."""

    app = Klein()

    def __init__(self, context: ResourceContext) -> None:
        self._context = context
        self._access = context.manager.access

    @app.route("/v1/queues/<path:path>/acl", methods=["GET"])
    async def acl(self, request: ControlRequest, path: str) -> bytes:
        """One access control list."""
        without_parameters(request)
        return json_answer(request, json_record(await running(self._access.acl(path))))

    @app.route("/v1/queues/<path:path>/acl", methods=["POST"])
    async def change_acl(self, request: ControlRequest, path: str) -> bytes:
        """Allow or deny a right to a principal, remove all its entries, or replace the list."""
        document = self._context.document(request)
        if document.get("action") == "replace":
            return await self._replace(request, path, document)
        wanted = read_acl_change(document)
        return await self._context.changed(
            request,
            AuditedOperation(f"acl {wanted.action}", path, wanted.details),
            lambda: wanted.ask(self._access, path),
        )

    async def _replace(self, request: ControlRequest, path: str, wanted: dict[str, Any]) -> bytes:
        del wanted["action"]
        sddl = text("sddl", wanted.pop("sddl", None))
        dry_run = flag("dry_run", wanted.pop("dry_run", False))
        refuse_rest(wanted, "action, sddl and dry_run")
        if dry_run:
            found = await running(self._access.replace(path, sddl, dry_run=True))
            return json_answer(request, json_record(found))
        return await self._context.changed(
            request,
            AuditedOperation("acl replace", path, {"sddl": sddl}),
            lambda: self._access.replace(path, sddl),
        )

    @app.route("/v1/acl", methods=["POST"])
    async def as_sddl(self, request: ControlRequest) -> bytes:
        """The SDDL of an access list with the C{entries} in the body; nothing is changed."""
        wanted = self._context.document(request)
        entries = wanted.pop("entries", None)
        refuse_rest(wanted, "entries")
        if not isinstance(entries, list):
            raise invalid(f"entries is a list of objects, not {shown(entries)}")
        sddl = await running(self._access.as_sddl([_read_entry(entry) for entry in entries]))
        return json_answer(request, {"sddl": sddl})

    @app.route("/v1/queues/<path:path>/why", methods=["GET"])
    async def why(self, request: ControlRequest, path: str) -> bytes:
        """Whether a principal has a right to a queue, and the entry that decides it."""
        found = parameters(request)
        principal, right = take(found, "principal"), take(found, "right")
        refuse_rest(found, "principal and right")
        return json_answer(request, json_record(await running(self._access.why(path, principal, right))))
