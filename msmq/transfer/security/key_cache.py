"""SendSymmetricKeyCache and ReceiveSymmetricKeyCache: cached session keys. [MS-MQQB] 3.1.1.3."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.moment import Moment

SEND_SYMMETRIC_KEY_CACHE_SIZE: Final = 53
"""SendSymmetricKeyCacheSize. [MS-MQQB] 3.1.3.1."""

RECEIVE_SYMMETRIC_KEY_CACHE_SIZE: Final = 127
"""ReceiveSymmetricKeyCacheSize. [MS-MQQB] 3.1.3.1."""

SYMMETRIC_KEY_SHORT_LIFETIME: Final = 600.0
"""SymmetricKeyShortLifetime, in seconds. [MS-MQQB] 3.1.3.1."""

GRACE: Final = 60.0
"""The minute that a cleanup comes after the end of the oldest key, in seconds. [MS-MQQB] 3.1.6.10."""


@attrs.frozen
class CachedSymmetricKey:
    """CachedSymmetricKey. [MS-MQQB] 3.1.1.3.3.

    @ivar remote_queue_manager: RemoteQMGuid.
    @ivar provider_name: CryptoServiceProvider.
    @ivar algorithm: CryptoAlgorithm, 32 bits.
    @ivar encrypted_key: EncryptedSymmetricKey, the SIMPLEBLOB as packets carry it.
    @ivar key: SymmetricKey.
    @ivar cached_time: CachedTime, on the monotonic clock, so that it cannot be set back (reading 73).
    """

    remote_queue_manager: UUID
    provider_name: str
    algorithm: int
    encrypted_key: bytes = attrs.field(repr=False)
    key: bytes = attrs.field(repr=False)
    cached_time: float


class SymmetricKeyCache:
    """Symmetric key cache with its timer. [MS-MQQB] 3.1.1.3, 3.1.2.10, 3.1.2.11, 3.1.6.10, 3.1.6.11.

    It holds a limited number of keys, each for little more than its lifetime.
    The timer is L{deadline}, at which the caller calls L{expire}.  There is no cache of base keys (3.1.2.12,
    3.1.6.12). A key is used until that happens, even if it is a little older than its lifetime.
    """

    def __init__(self, size: int, lifetime: float = SYMMETRIC_KEY_SHORT_LIFETIME) -> None:
        """An empty cache.

        @param size: how many keys it holds.
        @param lifetime: SymmetricKeyShortLifetime, in seconds.
        @raise LocalProtocolError: the size is not at least 2, or the lifetime not more than 0.
        """
        if size < 2 or lifetime <= 0:
            raise LocalProtocolError(f"{size} keys for {lifetime} seconds: no cache can be that small")
        self._size = size
        self._lifetime = lifetime
        self._keys: dict[tuple[UUID, str, int, bytes | None], CachedSymmetricKey] = {}
        self.deadline: float | None = None
        """When L{expire} is due, in seconds of the monotonic clock."""

    def configure(self, size: int, lifetime: float) -> None:
        """Apply another size and lifetime to keys that are cached from now on."""
        self._size = size
        self._lifetime = lifetime

    def __len__(self) -> int:
        return len(self._keys)

    def to_send(
        self, remote_queue_manager: UUID, provider_name: str, algorithm: int
    ) -> CachedSymmetricKey | None:
        """The key that messages to a queue manager are encrypted with already. [MS-MQQB] 3.1.7.1.5."""
        return self._keys.get((remote_queue_manager, provider_name, algorithm, None))

    def received(
        self, remote_queue_manager: UUID, provider_name: str, algorithm: int, encrypted_key: bytes
    ) -> CachedSymmetricKey | None:
        """The key that was decrypted before; all four have to be the same. [MS-MQQB] 3.1.5.8.3."""
        return self._keys.get((remote_queue_manager, provider_name, algorithm, encrypted_key))

    def add_to_send(self, key: CachedSymmetricKey, now: Moment) -> None:
        """Use this key for what is sent from now on. [MS-MQQB] 3.1.7.1.5."""
        self._add((key.remote_queue_manager, key.provider_name, key.algorithm, None), key, now)

    def add_received(self, key: CachedSymmetricKey, now: Moment) -> None:
        """Cache a decrypted key. [MS-MQQB] 3.1.5.8.3."""
        self._add((key.remote_queue_manager, key.provider_name, key.algorithm, key.encrypted_key), key, now)

    def _add(self, slot: tuple[UUID, str, int, bytes | None], key: CachedSymmetricKey, now: Moment) -> None:
        if slot not in self._keys and len(self._keys) >= self._size:
            oldest = sorted(self._keys, key=lambda each: self._keys[each].cached_time)
            for each in oldest[: self._size // 2]:
                del self._keys[each]
        self._keys[slot] = key
        if self.deadline is None:
            self.deadline = now.monotonic + self._lifetime

    def forget(self, remote_queue_manager: UUID) -> None:
        """Drop the keys of a queue manager, whose public key has changed."""
        for slot in [slot for slot in self._keys if slot[0] == remote_queue_manager]:
            del self._keys[slot]

    def expire(self, now: Moment) -> None:
        """Delete what is older than its lifetime, if the deadline has come. [MS-MQQB] 3.1.6.10, 3.1.6.11."""
        if self.deadline is None or now.monotonic < self.deadline:
            return
        since = now.monotonic - self._lifetime
        for slot in [slot for slot, key in self._keys.items() if key.cached_time < since]:
            del self._keys[slot]
        oldest = min((key.cached_time for key in self._keys.values()), default=None)
        self.deadline = None if oldest is None else oldest + self._lifetime + GRACE
