"""Membership of a queue manager: enterprise, sites and roles."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import attrs


@attrs.frozen
class Membership:
    """The enterprise and sites of a queue manager, from its directory.

    @ivar enterprise: Enterprise.Identifier; C{None} as long as no enterprise was read.
    @ivar sites: SiteIdentifierList.
    @ivar connected_networks: ConnectedNetworkIdentifierList, which not every directory has.
    @ivar directory_servers: DirectoryServerList; empty if the directory is not on a server.
    """

    enterprise: UUID | None
    sites: Sequence[UUID]
    connected_networks: Sequence[UUID]
    directory_servers: Sequence[str]
