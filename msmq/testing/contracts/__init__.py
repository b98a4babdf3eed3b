"""Contract tests of the interfaces, as mixins for test cases of trial or pytest; one for each interface.

A provider of a store, a directory, a router or an access control passes its contract::

    class OwnStoreTests(MessageStoreContract, TestCase):
        def make_store(self) -> IMessageStore:
            return OwnStore(self.path)

The names are imported lazily.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmq.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from msmq.testing.contracts.access_control import AccessControlContract
    from msmq.testing.contracts.ciphers import CiphersContract
    from msmq.testing.contracts.directory import DirectoryContract
    from msmq.testing.contracts.directory_changes import WritableDirectoryContract
    from msmq.testing.contracts.message_store import MessageStoreContract
    from msmq.testing.contracts.router import RouterContract
    from msmq.testing.contracts.signing import CertificateStoreContract, SigningContract
    from msmq.testing.contracts.store_history import StoreHistoryContract

__all__ = [
    "AccessControlContract",
    "CertificateStoreContract",
    "CiphersContract",
    "DirectoryContract",
    "MessageStoreContract",
    "RouterContract",
    "SigningContract",
    "StoreHistoryContract",
    "WritableDirectoryContract",
]

_MODULES: Final = {
    "msmq.testing.contracts.access_control": ("AccessControlContract",),
    "msmq.testing.contracts.ciphers": ("CiphersContract",),
    "msmq.testing.contracts.directory": ("DirectoryContract",),
    "msmq.testing.contracts.directory_changes": ("WritableDirectoryContract",),
    "msmq.testing.contracts.message_store": ("MessageStoreContract",),
    "msmq.testing.contracts.router": ("RouterContract",),
    "msmq.testing.contracts.signing": ("CertificateStoreContract", "SigningContract"),
    "msmq.testing.contracts.store_history": ("StoreHistoryContract",),
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(__name__, _MODULES)
