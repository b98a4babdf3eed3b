"""Contract tests of the interfaces, as mixins for test cases of trial or pytest; one for each interface.

A provider of a store, a directory, a router or an access control passes its contract::

    class OwnStoreTests(MessageStoreContract, TestCase):
        def make_store(self) -> IMessageStore:
            return OwnStore(self.path)

The names are imported lazily.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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

_MODULES = {
    "AccessControlContract": "access_control",
    "CertificateStoreContract": "signing",
    "CiphersContract": "ciphers",
    "DirectoryContract": "directory",
    "MessageStoreContract": "message_store",
    "RouterContract": "router",
    "SigningContract": "signing",
    "StoreHistoryContract": "store_history",
    "WritableDirectoryContract": "directory_changes",
}


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
