"""UserCertCache: certificates of users that the directory has confirmed. [MS-MQQB] 3.1.1.3."""

from __future__ import annotations

from typing import Final

import attrs

from msmq.moment import Moment
from msmq.structures.directory.user_sign_certs import MqUserSignCert

CACHE_SIZE: Final = 53
"""UserCertCacheSize. [MS-MQQB] 3.1.3.1."""

LIFETIME: Final = 1200.0
"""UserCertLifetime, in seconds. [MS-MQQB] 3.1.3.1."""

_GRACE: Final = 60.0
"""The minute between the expiry of the oldest entry and the timer. [MS-MQQB] 3.1.6.13."""


@attrs.frozen
class CachedUserCert:
    """CachedUserCert. [MS-MQQB] 3.1.1.3.4.

    @ivar user_cert: as the directory has it.
    @ivar security_id: the SID of the user.
    @ivar cached_time: when the directory said so, on the clock that never goes back.
    """

    user_cert: MqUserSignCert
    security_id: bytes
    cached_time: float


class UserCertCache:
    """UserCertCache, with its UserCertCache Cleanup Timer. [MS-MQQB] 3.1.1.3 and 3.1.2.13.

    An entry is valid until the timer removes it, up to a minute after its expiry.

    @ivar deadline: when the timer expires, on the clock that never goes back; C{None} if it does not run.
    """

    def __init__(self, size: int = CACHE_SIZE, lifetime: float = LIFETIME) -> None:
        self._size = size
        self._lifetime = lifetime
        # In the order of their CachedTime, because that is the order in which they come.
        self._entries: dict[tuple[bytes, bytes], CachedUserCert] = {}
        self.deadline: float | None = None

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._entries)

    def find(self, certificate: bytes, security_id: bytes) -> CachedUserCert | None:
        """The entry of just this certificate and just this user. [MS-MQQB] 3.1.5.8.3."""
        return self._entries.get((certificate, security_id))

    def add(self, user_cert: MqUserSignCert, security_id: bytes, now: Moment) -> None:
        """Remember a certificate that the directory has; the oldest half makes room. [MS-MQQB] 3.1.5.8.3."""
        key = (user_cert.certificate, security_id)
        self._entries.pop(key, None)
        if len(self._entries) >= self._size:
            for oldest in list(self._entries)[: self._size // 2 or 1]:
                del self._entries[oldest]
        self._entries[key] = CachedUserCert(user_cert, security_id, now.monotonic)
        if self.deadline is None:
            self.deadline = now.monotonic + self._lifetime

    def forget(self, security_id: bytes) -> None:
        """Remove the entries of a user, whose certificates have changed."""
        for key in [key for key in self._entries if key[1] == security_id]:
            del self._entries[key]

    def expire(self, now: Moment) -> None:
        """UserCertCache Cleanup Timer Event, if it is time for it. [MS-MQQB] 3.1.6.13."""
        if self.deadline is None or now.monotonic < self.deadline:
            return
        for key, entry in list(self._entries.items()):
            if entry.cached_time < now.monotonic - self._lifetime:
                del self._entries[key]
        oldest = next(iter(self._entries.values()), None)
        self.deadline = None
        if oldest is not None:
            self.deadline = oldest.cached_time + self._lifetime + _GRACE
