"""Access rights for operators: show, allow, deny, revoke, explain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final, TypeAlias

import attrs
from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger

from msmq.background import undivided
from msmq.errors import LocalProtocolError
from msmq.interfaces.manager.access_summaries import AccessEntry, AccessList, AccessVerdict
from msmq.interfaces.security.access import AccountUnknown
from msmq.manager.administration.local_queues import LocalQueues
from msmq.manager.administration.summaries import queue_path
from msmq.manager.applications.targets import own_queue
from msmq.manager.performer import Performer
from msmq.manager.securing.protection import Protection
from msmq.manager.securing.queue_access_decision import decide_access
from msmq.manager.securing.security_descriptors import (
    SecurityDescriptors,
    checked,
    deciding,
    parse_security,
    protected_queue,
    read_descriptor,
)
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.persistence.changes import PutState
from msmq.persistence.definition import QueueType
from msmq.queues.queue import Queue
from msmq.quoting import quoted
from msmq.structures.status import MQError, Status
from msmq.windows.access_masks import QUEUE_KIND, QUEUE_MANAGER_KIND, ObjectKind, QueueAccess
from msmq.windows.condition_text import format_condition
from msmq.windows.sddl import format_sddl
from msmq.windows.security_descriptor import (
    SecurityDescriptor,
    allow,
    deny,
    with_entry,
    without_entries_of,
)
from msmq.windows.security_descriptor_aces import Ace, AceFlags, AceType, Acl, AnyAce
from msmq.windows.well_known_sids import ANONYMOUS
from msmq.wire.sid import format_sid

MACHINE: Final = "."
"""The name of the queue manager itself, in place of a queue."""

MACHINE_STATE: Final = "access.queue_manager"
"""The name in the store of the queue manager's descriptor."""

_MOST_NAMES: Final = 100

_Change: TypeAlias = Callable[[SecurityDescriptor], SecurityDescriptor]
_ACTIONS: Final = {
    AceType.ACCESS_ALLOWED: "allow",
    AceType.ACCESS_DENIED: "deny",
    AceType.ACCESS_ALLOWED_CALLBACK: "allow if",
    AceType.ACCESS_DENIED_CALLBACK: "deny if",
}
_CONDITIONAL: Final = (AceType.ACCESS_ALLOWED_CALLBACK, AceType.ACCESS_DENIED_CALLBACK)


@attrs.frozen
class _Target:
    """The object of a request: a queue, or the queue manager.

    @ivar queue: C{None} for the queue manager.
    """

    name: str
    kind: ObjectKind
    queue: Queue | None


class Permissions:
    """Shows, changes and explains the descriptors of one queue manager."""

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        local: LocalQueues,
        descriptors: SecurityDescriptors,
        trusted_peers: TrustedPeers,
    ) -> None:
        self._performer = performer
        self._local = local
        self.descriptors = descriptors
        self._trusted_peers = trusted_peers
        self._altering = DeferredLock()

    def load(self, state: Mapping[str, bytes]) -> None:
        """Load the stored state."""
        kept = state.get(MACHINE_STATE)
        if kept is not None:
            self.descriptors.set_machine(read_descriptor(kept))

    async def show(self, path: str) -> AccessList:
        """The rights of accounts to a queue, or to the queue manager.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_ILLEGAL_OPERATION for a queue of the system, or
            that the name is malformed.
        """
        target = self._target(path)
        return await self._describe(target, await self._protection(target))

    async def change(
        self, path: str, principal: str, rights: Sequence[str], *, is_denial: bool
    ) -> AccessList:
        """Allow or deny a right to a principal; returns as L{show}.

        @param rights: words of L{ObjectKind}, or names of the document.
        @raise MQError: as L{show}; MQ_ERROR_INVALID_PARAMETER for an unknown right;
            MQ_ERROR_COULD_NOT_GET_USER_SID for an unknown principal; MQ_ERROR_PROPERTY_NOTALLOWED where a
            rule replaces the descriptor.
        """
        target = self._target(path)
        mask = 0
        for right in rights:
            mask |= _right(target.kind, right)
        if not mask:
            raise MQError(Status.MQ_ERROR_INVALID_PARAMETER, "no right is given")
        sid = await self.sid_of(principal)
        entry = deny(sid, mask) if is_denial else allow(sid, mask)
        return await self._alter(target, lambda descriptor: with_entry(descriptor, entry), sid)

    async def remove(self, path: str, principal: str) -> AccessList:
        """Remove all entries of a principal; returns as L{show}.

        @raise MQError: as L{change}.
        """
        target = self._target(path)
        sid = await self.sid_of(principal)
        return await self._alter(target, lambda descriptor: without_entries_of(descriptor, sid), sid)

    async def as_sddl(self, entries: Sequence[tuple[str, str, Sequence[str]]]) -> str:
        """The access list of a queue with these entries alone, as SDDL.

        @param entries: C{allow} or C{deny}, a principal and rights, as of L{change}.
        @raise MQError: as L{change}.
        """
        descriptor = SecurityDescriptor(dacl=Acl(()))
        for action, principal, rights in entries:
            mask = 0
            for right in rights:
                mask |= _right(QUEUE_KIND, right)
            if not mask:
                raise MQError(Status.MQ_ERROR_INVALID_PARAMETER, f"no right is given to {quoted(principal)}")
            sid = await self.sid_of(principal)
            descriptor = with_entry(descriptor, deny(sid, mask) if action == "deny" else allow(sid, mask))
        return format_sddl(checked(descriptor, QUEUE_KIND))

    async def replace(self, path: str, sddl: str, *, dry_run: bool) -> AccessList:
        """Replace the owner, the list and the attributes, as far as C{sddl} has them; returns as L{show}.

        @param dry_run: only return what the list would be.
        @raise MQError: as L{change}; MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR.
        """
        target = self._target(path)
        supplied = deciding(parse_security(sddl) or SecurityDescriptor())

        def change(before: SecurityDescriptor) -> SecurityDescriptor:
            return attrs.evolve(
                before,
                owner=before.owner if supplied.owner is None else supplied.owner,
                dacl=before.dacl if supplied.dacl is None else supplied.dacl,
                # It has the attributes on which the conditions of entries depend.
                sacl=before.sacl if supplied.sacl is None else supplied.sacl,
            )

        if not dry_run:
            return await self._alter(target, change, None)
        protection = await self._protection(target)
        _, after = _changed(target, protection, change)
        return await self._describe(target, attrs.evolve(protection, descriptor=after))

    async def give_to(self, path: str, sid: bytes) -> AccessList:
        """Set the owner; returns as L{show}.

        @raise MQError: as L{change}.
        """
        target = self._target(path)
        return await self._alter(target, lambda descriptor: attrs.evolve(descriptor, owner=sid), None)

    async def why(self, path: str, principal: str, right: str) -> AccessVerdict:
        """Whether a principal has a right, and the entry that decides it.

        @raise MQError: as L{change}.
        """
        target = self._target(path)
        mask = _right(target.kind, right)
        sid = await self.sid_of(principal)
        protection = await self._protection(target)
        name_of = self.descriptors.access.name_of
        verdict = AccessVerdict(
            queue=target.name,
            principal=format_sid(sid),
            name=name_of(sid),
            right=target.kind.names(mask),
            granted=False,
            reason="",
            source=protection.source,
            groups=[],
        )
        try:
            token = await self.descriptors.access.token(sid)
            groups = [name_of(group) for group in sorted(token.groups)]
            verdict = attrs.evolve(verdict, name=name_of(sid), groups=groups)
            judged = decide_access(self.descriptors.access, protection, sid, mask, target.kind)
            decision = await judged if isinstance(judged, Deferred) else judged
        except AccountUnknown as error:
            # The account cannot be looked up, or the access control of a plugin denies.
            return attrs.evolve(verdict, reason=str(error))
        verdict = attrs.evolve(
            verdict,
            granted=decision.granted,
            reason=decision.decision.why(),
            source=decision.source,
        )
        if sid == ANONYMOUS and mask & QueueAccess.MQSEC_WRITE_MESSAGE and target.queue is not None:
            # The address and the requirements of the queue are checked before the descriptor.
            verdict = attrs.evolve(
                verdict,
                unauthenticated=self._trusted_peers.unauthenticated.value,
                demanded="a signature" if target.queue.definition.authenticate else None,
            )
        return verdict

    # Private

    def _target(self, path: str) -> _Target:
        if path == MACHINE:
            return _Target(MACHINE, QUEUE_MANAGER_KIND, None)
        queue = protected_queue(own_queue(self._performer.model, path))
        if queue.is_system:
            raise MQError(
                Status.MQ_ERROR_ILLEGAL_OPERATION,
                f"rights to {path} are rights to the queue manager, which is named {quoted(MACHINE)}",
            )
        return _Target(queue_path(queue), QUEUE_KIND, queue)

    async def sid_of(self, principal: str) -> bytes:
        """The SID of a principal.

        @raise MQError: MQ_ERROR_COULD_NOT_GET_USER_SID.
        """
        try:
            return await self.descriptors.access.resolve(principal)
        except AccountUnknown as error:
            raise MQError(Status.MQ_ERROR_COULD_NOT_GET_USER_SID, str(error)) from error

    async def _protection(self, target: _Target) -> Protection:
        if target.queue is None:
            return await self.descriptors.of_machine()
        protection = self.descriptors.of(target.queue)
        return await protection if isinstance(protection, Deferred) else protection

    async def _alter(self, target: _Target, change: _Change, about: bytes | None) -> AccessList:
        return await undivided(self._alter_in_turn(target, change, about))

    async def _alter_in_turn(self, target: _Target, change: _Change, about: bytes | None) -> AccessList:
        # One at a time, since each starts from the result of the previous one.
        protection = await self._altering.run(self._altered, target, change, about)
        return await self._describe(target, protection)

    async def _altered(self, target: _Target, change: _Change, about: bytes | None) -> Protection:
        if target.queue is not None:
            self.descriptors.forget(target.queue)
        protection = await self._protection(target)
        before, after = _changed(target, protection, change)
        if after == before and not protection.is_published:
            return protection
        # Entries that the list already has may be missing in the directory, so this is checked anyway.
        await self._store(target, before, after, about)
        if after != before:
            self.log.info(
                "the access control of {queue} was changed from {before} to {after}",
                queue=_shown(target),
                before=_text(before),
                after=_text(after),
            )
        return await self._protection(target)

    async def _store(
        self, target: _Target, before: SecurityDescriptor, after: SecurityDescriptor, about: bytes | None
    ) -> None:
        queue = target.queue
        if queue is not None and queue.definition.type is QueueType.PUBLIC:
            with self.descriptors.changing(queue):
                await self.descriptors.publish(queue, before, after, about)
                await self._keep(target, after)
        else:
            await self._keep(target, after)

    async def _keep(self, target: _Target, descriptor: SecurityDescriptor) -> None:
        security = descriptor.to_bytes()
        if target.queue is None:
            await self._performer.commit([PutState(MACHINE_STATE, security)])
            self.descriptors.set_machine(descriptor)
            return
        await self._local.alter(target.queue, {"security": security})

    async def _describe(self, target: _Target, protection: Protection) -> AccessList:
        descriptor = protection.descriptor or SecurityDescriptor()
        aces = () if descriptor.dacl is None else descriptor.dacl.aces
        await self._learn_names([descriptor.owner, *(ace.sid for ace in aces if isinstance(ace, Ace))])
        name_of = self.descriptors.access.name_of
        return AccessList(
            queue=target.name,
            source=protection.source,
            owner=None if descriptor.owner is None else name_of(descriptor.owner),
            everything=descriptor.dacl is None,
            differences=[] if target.queue is None else self.descriptors.differences(target.queue),
            entries=[self._entry(ace, target.kind) for ace in aces],
            sddl=_text(descriptor),
        )

    def _entry(self, ace: AnyAce, kind: ObjectKind) -> AccessEntry:
        if not isinstance(ace, Ace):
            return AccessEntry(action=f"type {ace.type}", principal=None, name=None, rights=[], mask=0)
        return AccessEntry(
            action=_ACTIONS.get(ace.type, ace.type.name.lower()),
            principal=format_sid(ace.sid),
            name=self.descriptors.access.name_of(ace.sid),
            rights=kind.words_of(ace.mask),
            mask=ace.mask,
            inherited=bool(ace.flags & AceFlags.INHERITED),
            inherit_only=bool(ace.flags & AceFlags.INHERIT_ONLY),
            condition=_condition(ace.data) if ace.type in _CONDITIONAL else None,
        )

    async def _learn_names(self, sids: Sequence[bytes | None]) -> None:
        """Look up these accounts in the directory for their names."""
        for sid in {sid for sid in sids[:_MOST_NAMES] if sid is not None}:
            try:
                await self.descriptors.access.token(sid)
            except AccountUnknown:
                continue


def _changed(
    target: _Target, protection: Protection, change: _Change
) -> tuple[SecurityDescriptor, SecurityDescriptor]:
    """The descriptor before and after a change.

    @raise MQError: it cannot be changed so.
    """
    if protection.is_rule:
        raise MQError(
            Status.MQ_ERROR_PROPERTY_NOTALLOWED,
            f"{protection.source} defines the access control of {_shown(target)}; change it there",
        )
    before = protection.descriptor or SecurityDescriptor()
    after = checked(change(before), target.kind)
    if protection.is_published and after.owner != before.owner:
        raise MQError(
            Status.MQ_ERROR_PROPERTY_NOTALLOWED,
            f"the directory defines the owner of {_shown(target)}; change it there",
        )
    return before, after


def _right(kind: ObjectKind, right: str) -> int:
    try:
        return kind.parse(right)
    except ValueError as error:
        raise MQError(Status.MQ_ERROR_INVALID_PARAMETER, str(error)) from error


def _text(descriptor: SecurityDescriptor) -> str | None:
    try:
        return format_sddl(descriptor)
    except LocalProtocolError:
        return None


def _condition(data: bytes) -> str | None:
    try:
        return format_condition(data)
    except LocalProtocolError:
        return None


def _shown(target: _Target) -> str:
    return "this queue manager" if target.queue is None else target.name
