"""Certificates that the directory has confirmed: how many, and for how long."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.moment import Moment
from msmq.structures.directory.user_sign_certs import MqUserSignCert
from msmq.transfer.security.certificate_cache import CACHE_SIZE, LIFETIME, UserCertCache

SID, OTHER = b"a sid", b"another sid"
MINUTE = 60.0


def at(minutes: float) -> Moment:
    """This number of minutes after the start, with jumps of the wall clock."""
    return Moment(1000.0 + minutes * MINUTE, 5.0 * minutes % 7)


def certificate(number: int) -> MqUserSignCert:
    return MqUserSignCert.of(b"certificate %d" % number, UUID(int=number))


class CertificateCacheTests(SynchronousTestCase):
    """L{UserCertCache}."""

    def known(self, cache: UserCertCache, count: int = 100) -> list[int]:
        """Which of the certificates it knows."""
        return [number for number in range(count) if cache.find(certificate(number).certificate, SID)]

    def test_a_certificate_and_its_user(self) -> None:
        """It is found for its user only, and only if every byte is the same (MQQB-3.1.1.3.4-01)."""
        cache = UserCertCache()
        self.assertIsNone(cache.find(certificate(1).certificate, SID))
        cache.add(certificate(1), SID, at(0))
        found = cache.find(certificate(1).certificate, SID)
        assert found is not None
        self.assertEqual((found.user_cert, found.security_id), (certificate(1), SID))
        self.assertIsNone(cache.find(certificate(1).certificate, OTHER))
        self.assertIsNone(cache.find(certificate(1).certificate + b"\0", SID))

    def test_size(self) -> None:
        """The oldest 26 of 53 are evicted for a new one.

        MQQB-3.1.1.3-01, MQQB-3.1.3.1-03, MQQB-3.1.5.8.3-10.
        """
        cache = UserCertCache()
        self.assertEqual(CACHE_SIZE, 53)
        for number in range(53):
            cache.add(certificate(number), SID, at(number / 100))
        self.assertEqual(self.known(cache), list(range(53)))
        cache.add(certificate(53), SID, at(1))
        self.assertEqual(self.known(cache), list(range(26, 54)))
        self.assertEqual(len(cache), 28)

    def test_small_sizes(self) -> None:
        """The older half goes, rounded down, but never none."""
        for size, left in ((1, [1]), (2, [1, 2]), (3, [1, 2, 3])):
            cache = UserCertCache(size=size)
            for number in range(size + 1):
                cache.add(certificate(number), SID, at(number))
            self.assertEqual(self.known(cache), left)

    def test_lifetime(self) -> None:
        """After twenty minutes it is still there, after twenty-one it is not.

        MQQB-3.1.3.1-03, MQQB-3.1.5.8.3-10.
        """
        cache = UserCertCache()
        self.assertEqual(LIFETIME, 20 * MINUTE)
        self.assertIsNone(cache.deadline)
        cache.add(certificate(0), SID, at(0))
        cache.add(certificate(1), SID, at(5))
        self.assertEqual(cache.deadline, at(20).monotonic)
        cache.expire(at(19))
        self.assertEqual((self.known(cache), cache.deadline), ([0, 1], at(20).monotonic))
        cache.expire(at(20))
        self.assertEqual(self.known(cache), [0, 1])
        self.assertEqual(cache.deadline, at(21).monotonic)
        cache.expire(at(21))
        self.assertEqual(self.known(cache), [1])
        self.assertEqual(cache.deadline, at(26).monotonic)
        cache.expire(at(26))
        self.assertEqual((self.known(cache), cache.deadline), ([], None))
        cache.expire(at(27))
        self.assertIsNone(cache.deadline)

    def test_added_again(self) -> None:
        """Its age begins anew, and it is counted once."""
        cache = UserCertCache(size=2)
        cache.add(certificate(0), SID, at(0))
        cache.add(certificate(1), SID, at(1))
        cache.add(certificate(0), SID, at(2))
        self.assertEqual(self.known(cache), [0, 1])
        cache.add(certificate(2), SID, at(3))
        self.assertEqual(self.known(cache), [0, 2])

    def test_forget(self) -> None:
        """The certificates of one user are removed, and of no other."""
        cache = UserCertCache()
        cache.add(certificate(0), SID, at(0))
        cache.add(certificate(0), OTHER, at(0))
        cache.forget(SID)
        self.assertEqual(self.known(cache), [])
        self.assertIsNotNone(cache.find(certificate(0).certificate, OTHER))

    def test_confirmed_again(self) -> None:
        """A known certificate needs no room, and is the youngest from then on."""
        cache = UserCertCache(size=4)
        for number in range(4):
            cache.add(certificate(number), SID, at(number))
        cache.add(certificate(0), SID, at(4))
        self.assertEqual(self.known(cache), [0, 1, 2, 3])
        cache.add(certificate(9), SID, at(5))
        self.assertEqual(self.known(cache), [0, 3, 9])
