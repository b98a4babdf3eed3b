"""Every rule about accepted signatures and certificates, as tables. [MS-MQQB] 3.1.5.8.3."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.algorithms import AuthenticationLevel, HashAlgorithm
from msmq.structures.packet.message_class import MessageClass
from msmq.transfer.security.message_requirements import SecurityFault
from msmq.transfer.security.signature_rules import (
    PROVIDERS,
    SigningPolicy,
    certificate_fault,
    certificate_text,
    method_fault,
    version_fault,
)

POLICY = SigningPolicy()
SHA_256, SHA_1 = int(HashAlgorithm.SHA_256), int(HashAlgorithm.SHA_1)


@attrs.frozen
class Certificate:
    """A certificate that the policy accepts at second 150."""

    subject: str = "CN=alice"
    fingerprint: str = "0123456789abcdef" * 4
    key_type: str = "RSA"
    key_bits: int = 2048
    not_before: float = 100.0
    not_after: float = 200.0


class SignatureRuleTests(SynchronousTestCase):
    """Why a signature is refused, before and after its verification."""

    def check(self, fault: SecurityFault | None, text: str, message_class: MessageClass | None) -> None:
        if fault is None:
            self.assertEqual(text, "")
        else:
            self.assertIn(text or "accepted", fault.reason)
            self.assertEqual(fault.message_class, message_class or MessageClass.NACK_BAD_SIGNATURE)

    def test_methods(self) -> None:
        """A line for each reason; the provider is checked before the hash algorithm."""
        unknown = MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER
        for facts, text, message_class in (
            ({}, "", None),
            ({"has_certificate": False}, "without a certificate", None),
            ({"is_default_provider": False}, "does not name it", None),
            ({"is_default_provider": False, "provider_name": min(PROVIDERS)}, "", None),
            ({"is_default_provider": False, "provider_name": "Acme"}, "provider 'Acme'", unknown),
            ({"provider_name": "Acme"}, "", None),
            ({"hash_algorithm": 0x1234}, "0x1234, which is unknown", None),
            ({"hash_algorithm": SHA_1}, 'hashes does not have "sha1"', None),
            (
                {"is_default_provider": False, "provider_name": "Acme", "hash_algorithm": SHA_1},
                "Acme",
                unknown,
            ),
        ):
            known: dict[str, Any] = {
                "has_certificate": True,
                "is_default_provider": True,
                "provider_name": None,
                "hash_algorithm": SHA_256,
                **facts,
            }
            with self.subTest(facts=facts):
                self.check(method_fault(POLICY, **known), text, message_class)

    def test_certificates(self) -> None:
        """A line for each reason; a certificate is valid in its first and in its last second."""
        for facts, now, text in (
            ({}, 150.0, ""),
            ({}, 100.0, ""),
            ({}, 200.0, ""),
            ({}, 99.0, "is not valid before 1970-01-01T00:01:40Z"),
            ({}, 201.0, "expired at 1970-01-01T00:03:20Z"),
            ({"key_type": "DSA"}, 150.0, "a key of DSA, not of RSA"),
            ({"key_bits": 1024}, 150.0, ""),
            ({"key_bits": 1023}, 150.0, "a key of 1023 bits, and [security] smallest_key is 1024"),
        ):
            with self.subTest(facts=facts, now=now):
                self.check(certificate_fault(Certificate(**facts), POLICY, now), text, None)

    def test_expired_certificates(self) -> None:
        """If the operator accepts expired certificates, one that is not valid yet is refused all the same,
        and so is a short key.
        """
        lenient = SigningPolicy(accepts_expired=True)
        self.check(certificate_fault(Certificate(), lenient, 1e9), "", None)
        self.check(certificate_fault(Certificate(), lenient, 99.0), "is not valid before", None)
        self.check(certificate_fault(Certificate(key_bits=1023), lenient, 1e9), "a key of 1023 bits", None)

    def test_versions(self) -> None:
        """A line for each result of the verification."""
        only_3 = SigningPolicy(versions=frozenset({AuthenticationLevel.SIG_3_0}))
        for level, policy, text in (
            (AuthenticationLevel.SIG_1_0, POLICY, ""),
            (AuthenticationLevel.SIG_3_0, only_3, ""),
            (AuthenticationLevel.SIG_2_0, only_3, 'signatures does not have "2.0"'),
            (None, POLICY, "is not that of its certificate CN over the message"),
        ):
            with self.subTest(level=level):
                self.check(version_fault(level, "CN", policy), text, None)

    def test_texts_have_an_end(self) -> None:
        """Names from a message are shown up to a length, and of a fingerprint 16 digits."""
        fault = method_fault(
            POLICY,
            has_certificate=True,
            is_default_provider=False,
            provider_name="A" * 64 + "B",
            hash_algorithm=SHA_256,
        )
        assert fault is not None
        self.assertIn(f"provider '{'A' * 64}', which", fault.reason)
        text = certificate_text(Certificate(subject="C" * 100 + "D", fingerprint="0123456789abcdef" * 4))
        self.assertEqual(text, f"'{'C' * 100}' (0123456789abcdef)")
