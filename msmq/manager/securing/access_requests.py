"""What applications and operators ask of who may do what with the queues of a queue manager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from msmq.interfaces.queue_manager import IQueueManager
from msmq.manager.assembly import Parts
from msmq.manager.securing.permissions import Permissions
from msmq.manager.securing.restricted_manager import RestrictedQueueManager
from msmq.structures.status import MQError, Status


class AccessRequests:
    """See L{IQueueManager}."""

    @property
    def _work(self) -> Parts:
        raise MQError(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, "this is no queue manager")

    async def acl(self, path: str) -> dict[str, Any]:
        """See L{IQueueManager.acl}."""
        return await self._permissions.show(path)

    async def allow(self, path: str, principal: str, rights: Sequence[str]) -> dict[str, Any]:
        """See L{IQueueManager.allow}."""
        return await self._permissions.change(path, principal, rights, is_denial=False)

    async def deny(self, path: str, principal: str, rights: Sequence[str]) -> dict[str, Any]:
        """See L{IQueueManager.deny}."""
        return await self._permissions.change(path, principal, rights, is_denial=True)

    async def revoke(self, path: str, principal: str) -> dict[str, Any]:
        """See L{IQueueManager.revoke}."""
        return await self._permissions.remove(path, principal)

    async def why(self, path: str, principal: str, right: str) -> dict[str, Any]:
        """See L{IQueueManager.why}."""
        return await self._permissions.why(path, principal, right)

    async def acting_as(self, principal: str) -> RestrictedQueueManager:
        """The queue manager as somebody sees it who is not its owner; each right is asked for.

        @param principal: a SID or a name.
        @raise MQError: MQ_ERROR_COULD_NOT_GET_USER_SID for somebody nobody knows, MQ_ERROR_ILLEGAL_OPERATION
            if nobody is asked who may do what.
        """
        permissions = self._permissions
        sid = await permissions.sid_of(principal)
        service = cast(IQueueManager, self)
        return RestrictedQueueManager(service, self._work, permissions.descriptors, sid)

    @property
    def _permissions(self) -> Permissions:
        permissions = self._work.permissions
        if permissions is None:
            raise MQError(
                Status.MQ_ERROR_ILLEGAL_OPERATION, "nobody here is asked who may do what with the queues"
            )
        return permissions
