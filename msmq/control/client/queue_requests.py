"""Requests of the control API about the queues of a server: properties, quotas, purges and access lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msmq.control.client.requests import ControlRequests, json_body
from msmq.control.client.targets import queue_target, with_query


class QueueRequests(ControlRequests):
    """The part of the client about queues."""

    def quotas(self) -> dict[str, Any]:
        """The quotas of all queues together, and their use."""
        return self.one("GET", "/v1/quotas")

    def set_quotas(self, changes: Mapping[str, object]) -> dict[str, Any]:
        """Set C{quota}, C{journal_quota} or both: kilobytes, C{None} for no limit, or C{configuration}."""
        return self.one("PATCH", "/v1/quotas", json_body(changes))

    def queues(self, *, system: bool = False) -> list[dict[str, Any]]:
        """All queues; system queues only with C{system}."""
        return self.several("/v1/queues?system=true" if system else "/v1/queues")

    def public_queues(
        self, *, label: str | None = None, kind: str | None = None, path: str | None = None
    ) -> list[dict[str, Any]]:
        """The public queues of the enterprise that match; C{kind} is the GUID that is their type."""
        given = {"label": label, "type": kind, "path": path}
        return self.several(with_query("/v1/public_queues", given))

    def queue(self, path: str) -> dict[str, Any]:
        """One queue."""
        return self.one("GET", queue_target(path))

    def create_queue(self, path: str, options: Mapping[str, object]) -> dict[str, Any]:
        """Create a queue; the options are those of L{msmq.interfaces.manager.queue_manager.IQueueManager}."""
        return self.one("POST", "/v1/queues", json_body({"path": path, **options}))

    def set_queue(self, path: str, properties: Mapping[str, object]) -> dict[str, Any]:
        """Change properties of a queue; a quota of C{None} removes the limit."""
        return self.one("PATCH", queue_target(path), json_body(properties))

    def pause_queue(self, path: str) -> dict[str, Any]:
        """Pause delivery to readers of a queue until it is resumed; receives wait as at an empty queue."""
        return self.one("POST", f"{queue_target(path)}/pause")

    def resume_queue(self, path: str) -> dict[str, Any]:
        """Let the receives from a paused queue go on."""
        return self.one("POST", f"{queue_target(path)}/resume")

    def purge_queue(self, path: str, progress: Callable[[int], None] | None = None) -> dict[str, Any]:
        """Remove all messages in a queue; C{purged} says how many.

        The purge continues if the caller disconnects; a second call waits for the rest.

        @param progress: called each second with the number of remaining messages.
        """
        return self.purge(f"{queue_target(path)}/purge", progress)

    def replay(
        self,
        path: str,
        into: str,
        *,
        begin: int | str | None = None,
        end: int | str | None = None,
        in_clear: bool = False,
    ) -> dict[str, Any]:
        """Send copies of the messages in the message log of a queue; C{replayed} is their number.

        @param into: a destination, as of L{send}.
        @param in_clear: send all of them unencrypted, even if their senders requested encryption.
        @param begin: the first message, and C{end} the last: a sequence number, or a time of arrival in ISO
            8601.
        """
        wanted: dict[str, object] = {"into": into, "from": begin, "to": end}
        if in_clear:
            wanted["in_clear"] = True
        return self.one("POST", f"{queue_target(path)}/replay", json_body(wanted))

    def delete_queue(self, path: str, *, if_empty: bool = False) -> dict[str, Any]:
        """Delete a queue and its messages; with C{if_empty} only a queue without messages."""
        return self.one("DELETE", queue_target(path) + ("?if_empty=true" if if_empty else ""))

    def acl(self, path: str) -> dict[str, Any]:
        """The access control of one queue, or of the queue manager, which is named C{.}."""
        return self.one("GET", f"{queue_target(path)}/acl")

    def change_acl(
        self, path: str, action: str, principal: str, rights: Sequence[str] = ()
    ) -> dict[str, Any]:
        """C{allow} or C{deny} a right to a principal, or C{revoke} all its entries."""
        wanted = {"action": action, "principal": principal, "rights": list(rights)}
        return self.one("POST", f"{queue_target(path)}/acl", json_body(wanted))

    def replace_acl(self, path: str, sddl: str, *, dry_run: bool = False) -> dict[str, Any]:
        """Replace the owner and the list of a queue, as far as C{sddl} has them; or only say what they
        would be.
        """
        wanted: dict[str, object] = {"action": "replace", "sddl": sddl, "dry_run": dry_run}
        return self.one("POST", f"{queue_target(path)}/acl", json_body(wanted))

    def acl_as_sddl(self, entries: Sequence[Mapping[str, object]]) -> str:
        """The SDDL of an access list with these entries: C{action}, C{principal} and C{rights} of each."""
        found = self.one("POST", "/v1/acl", json_body({"entries": list(entries)}))
        return str(found["sddl"])

    def why(self, path: str, principal: str, right: str) -> dict[str, Any]:
        """Whether a principal has a right to a queue, and the entry that decides it."""
        asked = {"principal": principal, "right": right}
        return self.one("GET", with_query(f"{queue_target(path)}/why", asked))
