"""Signed messages that arrive: what is believed, what is refused and why."""

from __future__ import annotations

from typing import Any
from unittest import skipIf

import attrs

from msmq.decoding.message_json import message_json
from msmq.interfaces.security.signing import CertificateFacts, Credentials, ISigning
from msmq.membership.objects import QueueManagerObject
from msmq.security.signatures import LibrarySigning
from msmq.structures.algorithms import AuthenticationLevel, HashAlgorithm
from msmq.structures.directory.public_key_blob import KeyAlgorithm, PublicKeyBlob
from msmq.structures.directory.public_keys import AES_PROVIDER, MqdsPublicKey, MqdsPublicKeys, ProviderType
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.security_header import ProviderInfo, SecurityHeader, SenderIdType
from msmq.structures.packet.user_message_rewrites import patch_security_header
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.testing.contracts.signing import SID
from msmq.transfer.security.unproven_senders import LIFETIME
from msmq.wire.sid import parse_sid
from tests.builders import GAMMA, with_security
from tests.nodes.signed import DAY, LEVELS, WALL, SigningTestCase
from tests.security.certificates import WITHOUT_OPENSSL, certificate_files, credentials, sign
from tests.signed_messages import CHANGES, COVERED, Fields


class ArrivingTests(SigningTestCase):
    """[MS-MQQB] 3.1.5.8.3."""

    def test_each_level(self) -> None:
        """The level of a signature is found, and shown.

        MQQB-3.1.5.8.3-02, MQQB-3.1.5.8.3-03, MQQB-3.1.5.8.3-04, MQMQ-2.2.20.6-15, MQDMPR-3.1.1.12-15.
        """
        for level in LEVELS:
            several = ("TCP:127.0.0.3\\private$\\plain", "OS:other\\q")
            for destinations in ((), several) if level is AuthenticationLevel.SIG_3_0 else ((),):
                self.say(self.signed(self.fields(destinations=destinations), level))
                [view] = self.arrived()
                self.assertIs(view.authentication_level, level)
                record = message_json(view)
                versions = {1: "1.0", 3: "2.0", 5: "3.0"}
                self.assertEqual(
                    (record["authenticated"], record["signature_version"]), (True, versions[level])
                )
                self.assertIsNone(message_json(view, is_kept=False)["signature_version"])
                self.assertEqual(record["sender_id"], "S-1-5-21-1-2-3-1001")
        self.assertEqual(self.reasons(), [])

    def test_each_covered_field(self) -> None:
        """A message with a changed covered field is refused; one with any other changed field is accepted.

        MQMQ-2.5.2-01, MQMQ-2.5.2-02, MQMQ-2.5.3-01, MQMQ-2.5.3-02, MQQB-5.1-03.
        """
        for level in LEVELS:
            for name, value in CHANGES.items():
                original = self.fields(admin="OS:gamma\\private$\\admin", dead_letter=True)
                change: dict[str, Any] = {name: value}
                changed = attrs.evolve(original, **change)
                if name in ("time_to_reach_queue", "time_to_be_received"):
                    changed = attrs.evolve(changed, sent_time=int(WALL))
                if name == "recoverable":
                    changed = attrs.evolve(changed, recoverable=True)
                if name in ("acknowledge",):
                    changed = attrs.evolve(changed, admin=original.admin)
                self.say(self.signed(changed, over=original.signed_over(level)))
                found = [view.authentication_level for view in self.arrived()]
                is_covered = name in COVERED[level]
                self.assertEqual(found, [] if is_covered else [level], (level, name))
                for reason in self.reasons():
                    self.assertIn("its signature is not that of its certificate", reason)

    def test_multiple_destinations_are_covered(self) -> None:
        """So is the list of all destinations; the one destination of a copy is not."""
        original = self.fields(destinations=("TCP:127.0.0.3\\private$\\plain", "OS:other\\q"))
        change: dict[str, Any]
        for change in ({"destinations": original.destinations[:1]}, {"body": b"another"}):
            changed = attrs.evolve(original, **change)
            self.assertIn(
                "its signature is not that", self.refused(self.signed(changed, over=original.signed_over(5)))
            )
        copy = attrs.evolve(original, destination="OS:beta\\private$\\plain")
        self.say(self.signed(copy, over=original.signed_over(5)))
        self.assertEqual(len(self.arrived()), 1)

    def test_several_destinations_without_a_signature(self) -> None:
        """The header that lists them has a field for a signature; if it is empty, the message is not signed.

        So says every message of Windows to several queues, which names its sender, signed or not.
        """
        several = ("TCP:127.0.0.3\\private$\\plain", "OS:other\\q")
        message = self.fields(destinations=several)
        self.say(
            message.packet(), message.with_security(SID, b"", b""), message.with_security(b"", b"", b"x")
        )
        self.assertEqual(
            [view.authentication_level for view in self.arrived()], [AuthenticationLevel.NONE] * 3
        )
        strict = attrs.evolve(message, destination="TCP:127.0.0.3\\private$\\strict")
        for packet in (strict.packet(), strict.with_security(SID, b"", b"")):
            reason = self.refused(packet)
            self.assertEqual(
                reason, "private$\\strict accepts only authenticated messages, and it is not signed"
            )

    def test_wrong_signatures(self) -> None:
        """A changed signature, one of another key, and one with another hash are refused."""
        message = self.fields()
        signature = self.signing.sign(self.alice, HashAlgorithm.SHA_512, message.signed_over(3))
        assert isinstance(signature, bytes)
        spoilt = bytes([signature[0] ^ 1]) + signature[1:]
        for each in (spoilt, signature[:-1], signature + b"\0", b"\0"):
            reason = self.refused(message.with_security(SID, each, self.alice.certificate))
            self.assertIn("its signature is not that of its certificate 'CN=user 0' (", reason)
        reason = self.refused(message.with_security(SID, signature, self.bob.certificate))
        self.assertIn("its signature is not that of its certificate 'CN=user 1' (", reason)
        packet = message.with_security(SID, signature, self.alice.certificate, hash_algorithm=0x800C)
        self.assertIn("its signature is not that", self.refused(packet))

    def test_double_signatures(self) -> None:
        """A signature of 1.0 followed by one of 2.0 has both parts verified; four zeros stand for the second.

        The second part is in Signature or behind the NUL of ProviderName.
        """
        message = self.fields()
        [first, second, _] = [self.signature(message, level) for level in LEVELS]
        other = self.signature(attrs.evolve(message, destination="OS:other\\q"), 3)
        zeros = bytes(4)
        one, two = AuthenticationLevel.SIG_1_0, AuthenticationLevel.SIG_2_0
        for parts, expected in (
            ((first, second), two),
            ((first, zeros), one),
            ((first, other), None),
            ((other, second), None),
            ((second, first), None),
            ((first, first), None),
            ((second, second), None),
            ((second, zeros), None),
            ((first, bytes(5)), None),
            ((first, second + zeros), None),
        ):
            for signature, surplus in ((b"".join(parts), b""), parts):
                header = SecurityHeader(
                    sender_id_type=SenderIdType.SID,
                    security_id=SID,
                    signature=signature,
                    sender_cert=self.alice.certificate,
                    provider_info=ProviderInfo(1, "Microsoft Base Cryptographic Provider v1.0", surplus),
                )
                self.say(patch_security_header(UserMessageView(message.packet()), header).packet)
                found = [view.authentication_level for view in self.arrived()]
                self.assertEqual(found, [] if expected is None else [expected], (parts, surplus))
                reasons = self.reasons()
                self.assertEqual(len(reasons), expected is None)
                if surplus and reasons:
                    self.assertIn(f"{len(surplus)} bytes follow the NUL of its ProviderName", reasons[0])

    def signature(self, message: Fields, level: int) -> bytes:
        """The signature of a message in one version."""
        made = self.signing.sign(self.alice, HashAlgorithm.SHA_512, message.signed_over(level))
        assert isinstance(made, bytes)
        return made

    def test_whose_certificate_it_is(self) -> None:
        """The user of the SID must have just this certificate in the directory.

        MQQB-3.1.5.8.3-11.
        """
        message = self.fields()
        reason = self.refused(self.signed(message, by=self.bob))
        self.assertIn("is that of S-1-5-21-1-2-3-1002 in the directory, not of S-1-5-21-1-2-3-1001", reason)
        uncertified = self.make_credentials(2)
        reason = self.refused(self.signed(message, by=uncertified))
        self.assertIn("is not one of the 1 that the directory has for S-1-5-21-1-2-3-1001", reason)
        reason = self.refused(self.signed(message, security_id=parse_sid("S-1-5-21-9")))
        self.assertIn("is not confirmed as that of S-1-5-21-9: the directory has no such user", reason)
        reason = self.refused(self.signed(message, security_id=b"\1\2\3"))
        self.assertEqual(reason, "its sender identifier of 3 bytes is not a SID")
        reason = self.refused(self.signed(message, flags=0x00C7))
        self.assertEqual(reason, "its sender identifier is of type 7, which is unknown")

    def test_directory_fails(self) -> None:
        """A sender that the directory cannot be asked about is refused in the class of a wrong signature.

        MQQB-3.1.5.8.3-11.
        """
        assert self.directory is not None
        self.directory.is_connected = False
        reason = self.refused(self.signed(self.fields()))
        self.assertRegex(reason, r"is not confirmed as that of S-1-5-21-1-2-3-1001: .*directory")
        self.directory.is_connected = True
        self.clock.advance(LIFETIME)
        self.say(self.signed(self.fields()))
        [view] = self.arrived()
        self.assertTrue(message_json(view)["authenticated"])

    def test_dates(self) -> None:
        """A certificate that has expired, or is not valid yet, is refused."""
        message = self.fields()
        for first, last, expected in (
            (WALL - 9 * DAY, WALL - DAY, "expired at 2023-11-13T22:13:20Z"),
            (WALL + DAY, WALL + 9 * DAY, "is not valid before 2023-11-15T22:13:20Z"),
        ):
            made = self.signing.create("user", first, last)
            self.register(SID, made)
            self.assertIn(expected, self.refused(self.signed(message, by=made)))

    def test_damaged_certificates(self) -> None:
        """An invalid certificate, and a missing one, are refused (MQMQ-2.2.20.6-16)."""
        message = self.fields()
        self.assertEqual(
            self.refused(message.with_security(SID, b"signature", b"rubbish")),
            "its certificate is not an X.509 certificate",
        )
        self.assertEqual(
            self.refused(message.with_security(SID, b"signature", b"")),
            "it is signed without a certificate",
        )

    def test_algorithms(self) -> None:
        """Weak hashes and unknown ones are refused by name, if there is a signature.

        MQQB-3.1.5.8.3-07, MQQB-3.1.5.8.3-08, MQMQ-2.2.19.3-19, MQDMPR-3.1.1.12-43.
        """
        for algorithm, name in (
            (HashAlgorithm.MD2, "md2"),
            (HashAlgorithm.MD4, "md4"),
            (HashAlgorithm.MD5, "md5"),
            (HashAlgorithm.SHA_1, "sha1"),
        ):
            reason = self.refused(self.signed(self.fields(), algorithm=algorithm))
            self.assertEqual(
                reason, f'its signature is made with {name}, and [security] hashes does not have "{name}"'
            )
        message = self.fields()
        signature = self.signing.sign(self.alice, HashAlgorithm.SHA_512, message.signed_over(3))
        assert isinstance(signature, bytes)
        packet = message.with_security(SID, signature, self.alice.certificate, hash_algorithm=0x9999)
        self.assertEqual(
            self.refused(packet), "its signature is made with the hash algorithm 0x9999, which is unknown"
        )
        self.say(self.fields().with_security(SID, b"", b"", hash_algorithm=0x9999))
        self.assertEqual(len(self.arrived()), 1)

    def test_providers(self) -> None:
        """A signature of an unknown provider has a class of its own; those of Windows sign alike.

        MQQB-3.1.5.8.3-22, MQMQ-2.2.20.6-06, MQMQ-2.2.20.6-23, MQDMPR-3.1.1.12-55.
        """
        message = self.fields()
        # Without DE the provider has to be named; the helper names none.
        reason = self.refused(self.signed(message, flags=0x0081))
        self.assertEqual(
            reason, "it was signed by a provider other than the default one, and does not name it"
        )
        signature = self.signing.sign(self.alice, HashAlgorithm.SHA_512, message.signed_over(3))
        assert isinstance(signature, bytes)
        known = "Microsoft Enhanced Cryptographic Provider v1.0"
        for info, expected in (
            (ProviderInfo(1, "Provider of Nobody"), ["NACK_UNSUPPORTED_CRYPTO_PROVIDER"]),
            # A message like that is refused alone, and the session goes on.
            (ProviderInfo(1, known, bytes(4)), ["NACK_BAD_SIGNATURE"]),
            (ProviderInfo(1, known), []),
        ):
            header = SecurityHeader(
                sender_id_type=SenderIdType.SID,
                security_id=SID,
                signature=signature,
                sender_cert=self.alice.certificate,
                provider_info=info,
            )
            self.say(patch_security_header(UserMessageView(message.packet()), header).packet)
            self.assertEqual([reason.partition(" ")[0] for reason in self.reasons()], expected)
        self.assertEqual(len(self.arrived()), 1)

    def test_no_sender(self) -> None:
        """MQDMPR-3.1.1.2-10: a signature without a sender is valid or not, and authenticates no user."""
        message = self.fields()
        self.say(self.signed(message, security_id=b"", flags=0x00C0))
        [view] = self.arrived()
        self.assertFalse(message_json(view)["authenticated"])
        spoilt = self.signed(message, security_id=b"", flags=0x00C0, over=b"another")
        self.assertIn("its signature is not that", self.refused(spoilt))
        strict = self.fields(destination="TCP:127.0.0.3\\private$\\strict")
        reason = self.refused(self.signed(strict, security_id=b"", flags=0x00C0))
        self.assertIn(
            "accepts only authenticated messages: it is signed, but it has no sender identifier", reason
        )

    def test_signed_by_a_queue_manager(self) -> None:
        """A signature of a queue manager is accepted if its key is in the directory.

        MQMQ-2.2.20.6-14.
        """
        assert self.directory is not None
        message = self.fields()
        identifier = GAMMA.bytes_le
        packet = self.signed(message, security_id=identifier, flags=0x00C2)
        self.say(packet)
        [view] = self.arrived()
        self.assertFalse(message_json(view)["authenticated"])
        facts = self.signing.facts(self.alice.certificate)
        assert isinstance(facts, CertificateFacts)
        blob = PublicKeyBlob(facts.modulus, facts.public_exponent, algorithm=KeyAlgorithm.SIGNATURE)
        keys = MqdsPublicKeys((MqdsPublicKey(AES_PROVIDER, ProviderType.PROV_RSA_AES, blob),))
        self.directory.add(
            QueueManagerObject(
                identifier=GAMMA,
                computer_name="GAMMA",
                qualified_computer_name="gamma.example.com",
                public_signing_key_list=keys,
            )
        )
        self.clock.advance(LIFETIME)
        self.say(packet)
        [view] = self.arrived()
        self.assertEqual(message_json(view)["sender_id"], "{" + str(GAMMA).upper() + "}")
        self.assertTrue(message_json(view)["authenticated"])
        reason = self.refused(self.signed(message, by=self.bob, security_id=identifier, flags=0x00C2))
        self.assertIn("the directory has another signing key", reason)
        reason = self.refused(self.signed(message, security_id=bytes(16), flags=0x00C2))
        self.assertIn("is signed by another queue manager than the one that sent it", reason)

    def test_queue_manager_without_signing_keys(self) -> None:
        """A queue manager with an empty list of keys counts as one that the directory does not know."""
        assert self.directory is not None
        message = self.fields()
        strict = self.fields(destination="TCP:127.0.0.3\\private$\\strict")
        for is_known in (False, True):
            if is_known:
                self.directory.add(
                    QueueManagerObject(
                        identifier=GAMMA, computer_name="GAMMA", public_signing_key_list=MqdsPublicKeys()
                    )
                )
                self.clock.advance(LIFETIME)
            # The second is answered from the cache.
            for _ in range(2):
                self.say(self.signed(message, security_id=GAMMA.bytes_le, flags=0x00C2))
                [view] = self.arrived()
                self.assertFalse(message_json(view)["authenticated"])
                reason = self.refused(self.signed(strict, security_id=GAMMA.bytes_le, flags=0x00C2))
                self.assertIn("the directory has no", reason)

    def test_queues_that_demand_it(self) -> None:
        """A queue that demands authentication takes what is signed and nothing else, header or not.

        MQDMPR-3.1.1.2-10, MQQB-3.1.5.8.3-21.
        """
        strict = "TCP:127.0.0.3\\private$\\strict"
        reason = self.refused(self.fields(destination=strict).packet())
        self.assertEqual(reason, "private$\\strict accepts only authenticated messages, and it is not signed")
        reason = self.refused(self.fields(destination=strict).with_security(SID, b"", b"", flags=0x0311))
        self.assertEqual(reason, "private$\\strict accepts only authenticated messages, and it is not signed")
        self.say(self.signed(self.fields(destination=strict)))
        self.assertEqual(len(self.arrived(self.strict)), 1)

    def test_privacy(self) -> None:
        """A queue of privacy body takes nothing in clear (MQQB-3.1.5.8.3-21), of none nothing encrypted."""
        self.queue(self.beta, "secret", privacy="body")
        self.queue(self.beta, "open", privacy="none")
        self.say(self.fields(destination="TCP:127.0.0.3\\private$\\secret").packet())
        self.say(
            self.fields(destination="TCP:127.0.0.3\\private$\\open").with_security(
                SID, b"", b"", flags=0x0021
            )
        )
        self.assertEqual(
            self.reasons(),
            [
                "NACK_BAD_ENCRYPTION from 127.0.0.4: private$\\secret accepts only encrypted messages"
                " (privacy body), and its body is in clear",
                "NACK_BAD_ENCRYPTION from 127.0.0.4: private$\\open accepts no encrypted messages"
                " (privacy none), and its body is encrypted",
            ],
        )

    def test_the_sender_is_notified(self) -> None:
        """A refused transactional message draws a FinalAck of its class.

        MQQB-3.1.5.8.3-06, MQDMPR-3.1.1.12-11.
        """
        from tests.nodes.scripted import transactional

        packet = transactional(b"1", (1 << 32, 1, 0))
        self.say(
            with_security(packet, SID, signature=b"wrong", certificate=self.alice.certificate), seconds=1
        )
        self.assertEqual(self.peer.final_acks, [(MessageClass.NACK_BAD_SIGNATURE, 1)])


@skipIf(WITHOUT_OPENSSL, WITHOUT_OPENSSL)
class OpensslTests(SigningTestCase):
    """Messages that openssl has signed, over bytes that were put together from the lists of the documents."""

    def make_signing(self) -> ISigning:
        return LibrarySigning()

    def make_credentials(self, number: int) -> Credentials:
        return credentials(number)

    def test_each_level_and_hash(self) -> None:
        """Each is accepted; a signature by another key is not."""
        facts = self.signing.facts(self.alice.certificate)
        assert isinstance(facts, CertificateFacts)
        self.clock.set_wall(facts.not_before + 1)
        several = ("TCP:127.0.0.3\\private$\\plain", "OS:other\\q")
        for algorithm, digest in ((HashAlgorithm.SHA_256, "sha256"), (HashAlgorithm.SHA_512, "sha512")):
            for level in LEVELS:
                message = self.fields(destinations=several if level == 5 else ())
                for signer in (0, 1):
                    _, private = certificate_files(signer)
                    signature = sign(private, digest, message.signed_over(level))
                    packet = message.with_security(
                        SID, signature, self.alice.certificate, hash_algorithm=algorithm
                    )
                    self.say(packet)
                    found = [view.authentication_level for view in self.arrived()]
                    self.assertEqual(found, [] if signer else [level])
        self.assertEqual(len(self.reasons()), 6)
