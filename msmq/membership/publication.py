"""Publication of the keys and roles of this queue manager at each start. [MS-MQDMPR] 3.1.3."""

from __future__ import annotations

from typing import Final

import attrs

from msmq.membership.access import DirectoryAccess
from msmq.membership.requests import Outcome, Procedure, QueueManagerKeys, Store

_ROLES: Final = ("routing_server", "directory_server", "supporting_server")
_KEYS: Final = ("public_encryption_key_list", "public_signing_key_list")


def publish_keys(access: DirectoryAccess, keys: QueueManagerKeys) -> Procedure[Outcome]:
    """Write these keys to the directory, if it has others or none.

    Call it after L{initialize<msmq.membership.initialization.initialize>}, which reads the directory's keys.

    @return: the result of the write; a success without one if nothing was to be done. If it fails nothing has
        changed, so that the next start tries again.
    """
    local = access.local
    held = local.object
    published = attrs.evolve(
        held, public_encryption_key_list=keys.encryption, public_signing_key_list=keys.signing
    )
    if published == held:
        return Outcome()
    written = yield from access.write_directory(published, _KEYS)
    if written.succeeded:
        local.object = published
        yield Store([local.object_change()])
    return written


def publish_roles(access: DirectoryAccess) -> Procedure[Outcome]:
    """Update the directory objects that follow from the roles and sites of this queue manager.

    A directory keeps objects of its own for servers in their sites ([MS-MQDSSM] 3.1.6.7.1.9), which are
    missing where a site or a role was set by other means than L{WriteObject
    <msmq.membership.requests.WriteObject>}. The roles themselves stay as the directory has them.
    Call it after L{initialize<msmq.membership.initialization.initialize>}.

    @return: the result of the write; a success without one if the queue manager serves no others, or if the
        directory was away a moment ago.
    """
    held = access.local.object
    if access.local.directory_offline or not (
        held.routing_server or held.directory_server or held.supporting_server
    ):
        return Outcome()
    return (yield from access.write_directory(held, _ROLES))
