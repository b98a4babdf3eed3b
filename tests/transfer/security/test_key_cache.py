"""[MS-MQQB] 3.1.1.3, 3.1.6.10 and 3.1.6.11: session keys are reused for a limited time, in limited number."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.moment import Moment
from msmq.structures.directory.public_keys import AES_PROVIDER, BASE_PROVIDER
from msmq.transfer.security.key_cache import (
    RECEIVE_SYMMETRIC_KEY_CACHE_SIZE,
    SEND_SYMMETRIC_KEY_CACHE_SIZE,
    CachedSymmetricKey,
    SymmetricKeyCache,
)

START = Moment(monotonic=5000.0, wall=1_700_000_000.0)
MINUTE = 60.0


def peer(number: int) -> UUID:
    """One of many queue managers."""
    return UUID(int=number + 1)


def key(
    number: int = 0,
    now: Moment = START,
    *,
    provider: str = AES_PROVIDER,
    algorithm: int = 0x6610,
    encrypted: bytes = b"blob",
) -> CachedSymmetricKey:
    """A key of a queue manager."""
    return CachedSymmetricKey(peer(number), provider, algorithm, encrypted, b"secret", now.monotonic)


class SizeTests(SynchronousTestCase):
    """A cache holds a limited number of keys."""

    def test_sizes_of_the_documents(self) -> None:
        """[MS-MQQB] 3.1.3.1: 53 to send with, 127 that were received."""
        self.assertEqual((SEND_SYMMETRIC_KEY_CACHE_SIZE, RECEIVE_SYMMETRIC_KEY_CACHE_SIZE), (53, 127))

    def test_the_fifty_fourth_key_to_send_with(self) -> None:
        """MQQB-3.1.3.1-05: the cache begins empty; the 54th key removes the 26 oldest."""
        cache = SymmetricKeyCache(SEND_SYMMETRIC_KEY_CACHE_SIZE)
        self.assertEqual(len(cache), 0)
        for number in range(53):
            cache.add_to_send(key(number, START.later(number)), START.later(number))
        self.assertEqual(len(cache), 53)
        cache.add_to_send(key(53, START.later(53)), START.later(53))
        self.assertEqual(len(cache), 53 - 26 + 1)
        self.assertIsNone(cache.to_send(peer(25), AES_PROVIDER, 0x6610))
        self.assertIsNotNone(cache.to_send(peer(26), AES_PROVIDER, 0x6610))
        self.assertIsNotNone(cache.to_send(peer(53), AES_PROVIDER, 0x6610))

    def test_the_hundred_and_twenty_eighth_received_key(self) -> None:
        """MQQB-3.1.3.1-04: the cache begins empty; the 128th key removes the 63 oldest."""
        cache = SymmetricKeyCache(RECEIVE_SYMMETRIC_KEY_CACHE_SIZE)
        for number in range(128):
            cache.add_received(key(number, START.later(number)), START.later(number))
        self.assertEqual(len(cache), 127 - 63 + 1)
        self.assertIsNone(cache.received(peer(62), AES_PROVIDER, 0x6610, b"blob"))
        self.assertIsNotNone(cache.received(peer(63), AES_PROVIDER, 0x6610, b"blob"))

    def test_oldest_goes_by_its_time(self) -> None:
        """The oldest keys are evicted, in any order of insertion."""
        cache = SymmetricKeyCache(2)
        cache.add_to_send(key(1, START.later(5)), START.later(5))
        cache.add_to_send(key(0, START), START.later(5))
        cache.add_to_send(key(2, START.later(6)), START.later(6))
        self.assertIsNone(cache.to_send(peer(0), AES_PROVIDER, 0x6610))
        self.assertIsNotNone(cache.to_send(peer(1), AES_PROVIDER, 0x6610))

    def test_another_key_of_the_same_peer_replaces_it(self) -> None:
        """No other is removed for it."""
        cache = SymmetricKeyCache(2)
        cache.add_to_send(key(0), START)
        cache.add_to_send(key(1), START)
        cache.add_to_send(key(0, START.later(1), encrypted=b"new"), START.later(1))
        found = cache.to_send(peer(0), AES_PROVIDER, 0x6610)
        self.assertEqual(found and found.encrypted_key, b"new")
        self.assertIsNotNone(cache.to_send(peer(1), AES_PROVIDER, 0x6610))

    def test_impossible_sizes(self) -> None:
        """A cache of one would forget nothing when it has to."""
        for size, lifetime in ((1, 600.0), (0, 600.0), (2, 0.0)):
            with self.assertRaises(LocalProtocolError):
                SymmetricKeyCache(size, lifetime)
        self.assertEqual(len(SymmetricKeyCache(2, 0.5)), 0)


class FindingTests(SynchronousTestCase):
    """A key is found by all that it is for."""

    def test_any_difference_is_a_miss(self) -> None:
        """MQQB-3.1.1.3.3-01: queue manager, provider, algorithm, and of a received key its blob."""
        cache = SymmetricKeyCache(8)
        held = key()
        cache.add_received(held, START)
        self.assertIs(cache.received(peer(0), AES_PROVIDER, 0x6610, b"blob"), held)
        self.assertIsNone(cache.received(peer(1), AES_PROVIDER, 0x6610, b"blob"))
        self.assertIsNone(cache.received(peer(0), BASE_PROVIDER, 0x6610, b"blob"))
        self.assertIsNone(cache.received(peer(0), AES_PROVIDER, 0x660E, b"blob"))
        self.assertIsNone(cache.received(peer(0), AES_PROVIDER, 0x6610, b"blob."))
        self.assertIsNone(cache.to_send(peer(0), AES_PROVIDER, 0x6610))

    def test_a_peer_whose_key_has_changed(self) -> None:
        """All its keys are forgotten, and those of no other."""
        cache = SymmetricKeyCache(8)
        cache.add_to_send(key(0), START)
        cache.add_to_send(key(0, algorithm=0x660E), START)
        cache.add_to_send(key(1), START)
        cache.forget(peer(0))
        self.assertEqual(len(cache), 1)
        self.assertIsNotNone(cache.to_send(peer(1), AES_PROVIDER, 0x6610))

    def test_nothing_secret_is_shown(self) -> None:
        """Neither the key nor the blob."""
        self.assertNotIn("secret", repr(key()))
        self.assertNotIn("blob", repr(key()))


class LifetimeTests(SynchronousTestCase):
    """A key is used for ten minutes and a little more."""

    def test_an_idle_key(self) -> None:
        """MQQB-3.1.5.8.3-16: the timer starts with the key; it is still there at 10 min, and gone at 11."""
        cache = SymmetricKeyCache(RECEIVE_SYMMETRIC_KEY_CACHE_SIZE)
        self.assertIsNone(cache.deadline)
        cache.add_received(key(), START)
        self.assertEqual(cache.deadline, START.monotonic + 10 * MINUTE)
        cache.expire(START.later(10 * MINUTE))
        self.assertEqual(len(cache), 1)
        self.assertEqual(cache.deadline, START.monotonic + 11 * MINUTE)
        cache.expire(START.later(11 * MINUTE))
        self.assertEqual(len(cache), 0)
        self.assertIsNone(cache.deadline)

    def test_what_stays_decides_when_to_look_again(self) -> None:
        """MQQB-3.1.6.10-01: of keys 11 and 4 minutes old the first goes; the next look is in 7 minutes."""
        cache = SymmetricKeyCache(8)
        cache.add_received(key(0), START)
        cache.add_received(key(1, START.later(7 * MINUTE)), START.later(7 * MINUTE))
        now = START.later(11 * MINUTE)
        cache.expire(now)
        self.assertIsNone(cache.received(peer(0), AES_PROVIDER, 0x6610, b"blob"))
        self.assertIsNotNone(cache.received(peer(1), AES_PROVIDER, 0x6610, b"blob"))
        self.assertEqual(cache.deadline, now.monotonic + 7 * MINUTE)

    def test_the_timer_runs_from_the_first_key(self) -> None:
        """One that comes later does not put it off."""
        cache = SymmetricKeyCache(8)
        cache.add_to_send(key(0), START)
        cache.add_to_send(key(1, START.later(MINUTE)), START.later(MINUTE))
        self.assertEqual(cache.deadline, START.monotonic + 10 * MINUTE)

    def test_a_key_to_send_with(self) -> None:
        """MQQB-3.1.3.1-06: it is used at 9 min, and not at 12 any more (MQQB-3.1.6.11-01)."""
        cache = SymmetricKeyCache(SEND_SYMMETRIC_KEY_CACHE_SIZE)
        cache.add_to_send(key(), START)
        for minutes, is_there in ((9, True), (10, True), (12, False)):
            cache.expire(START.later(minutes * MINUTE))
            self.assertEqual(cache.to_send(peer(0), AES_PROVIDER, 0x6610) is not None, is_there, minutes)

    def test_before_the_deadline_nothing_is_looked_at(self) -> None:
        """However old a key says it is."""
        cache = SymmetricKeyCache(8)
        cache.add_received(key(0, Moment(0.0, 0.0)), START)
        cache.expire(START.later(1))
        self.assertEqual(len(cache), 1)
        SymmetricKeyCache(8).expire(START)


class ConfigureTests(SynchronousTestCase):
    """Another size and lifetime."""

    def test_from_the_next_key_on(self) -> None:
        """The next key is one of so many, and of that age when the timer expires."""
        cache = SymmetricKeyCache(10, 600.0)
        cache.configure(4, 60.0)
        for number in range(4):
            cache.add_to_send(key(number), START)
        self.assertEqual((len(cache), cache.deadline), (4, START.monotonic + 60.0))
        cache.add_to_send(key(4), START)
        self.assertEqual(len(cache), 3)
        self.assertEqual(
            [cache.to_send(peer(number), AES_PROVIDER, 0x6610) is None for number in range(5)],
            [True, True, False, False, False],
        )
        cache.expire(START.later(61.0))
        self.assertEqual((len(cache), cache.deadline), (0, None))
