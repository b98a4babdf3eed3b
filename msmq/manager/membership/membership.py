"""Membership of a queue manager: enterprise, sites and roles."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import attrs


@attrs.frozen
class Membership:
    """What a queue manager belongs to, as its directory says.

    @ivar enterprise: Enterprise.Identifier; C{None} as long as no enterprise was read.
    @ivar sites: SiteIdentifierList.
    @ivar connected_networks: ConnectedNetworkIdentifierList, which not every directory has.
    @ivar directory_servers: DirectoryServerList; without names where the directory is on no server.
    """

    enterprise: UUID | None
    sites: Sequence[UUID]
    connected_networks: Sequence[UUID]
    directory_servers: Sequence[str]
