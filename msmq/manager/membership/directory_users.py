"""The users of the directory, with the certificates that are registered for them. [MS-MQDMPR] 3.1.1.15."""

from __future__ import annotations

import attrs

from msmq.manager.membership.integration import Integration
from msmq.membership.entry import DirectoryEntry
from msmq.membership.objects import UserObject
from msmq.membership.queries import equals
from msmq.membership.requests import Outcome


@attrs.frozen
class DirectoryUsers:
    """Reads and writes users by their SIDs."""

    integration: Integration

    async def read(self, sid: bytes) -> Outcome:
        """The user of a SID."""
        return await self.integration.read(UserObject, [equals("security_identifier", sid)])

    async def write(self, user: UserObject, former: DirectoryEntry[UserObject] | None) -> Outcome:
        """Write the certificates of a user to the directory.

        @param former: the user as it was read; C{None} if the directory does not have the user yet.
        @return: the value is false if another client has changed them since that was read.
        """
        access = self.integration.access
        if former is None:
            return await self.integration.ask(access.create_directory_object(user))
        attributes = ("certificate_digest_list", "certificates")
        return await self.integration.ask(access.write_directory(user, attributes, former))
