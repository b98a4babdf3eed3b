"""[MS-MQDMPR] 3.1.3 the keys of this queue manager in the directory, as they are now."""

from __future__ import annotations

from typing import Final

import attrs

from msmq.queues.directory.access import DirectoryAccess
from msmq.queues.directory.requests import Outcome, Procedure, QueueManagerKeys, Store

_KEYS: Final = ("public_encryption_key_list", "public_signing_key_list")


def publish_keys(access: DirectoryAccess, keys: QueueManagerKeys) -> Procedure[Outcome]:
    """Have the directory hold these keys, if it holds others or none.

    It is for after L{initialize<msmq.queues.directory.initialization.initialize>}, which reads what it holds.

    @return: of the writing; a success without one if nothing was to be done. If it fails nothing has changed,
        so that the next start tries again.
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
