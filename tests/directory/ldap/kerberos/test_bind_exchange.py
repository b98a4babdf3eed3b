"""The steps of a bind by Kerberos, and the ends that it may have."""

from __future__ import annotations

from hashlib import sha256, sha384

from twisted.trial.unittest import SynchronousTestCase

from msmq.directory.ldap.transport.kerberos.bind_exchange import (
    LONGEST_TOKEN,
    MOST_ROUNDS,
    BindExchange,
    BindRefusedError,
)
from msmq.directory.ldap.transport.kerberos.failures import FailureKind, describe_failure
from msmq.directory.ldap.transport.kerberos.tickets import channel_binding
from msmq.directory.ldap.transport.wire import Result


def result(code: int, token: bytes = b"", message: str = "") -> Result:
    """The answer of a server to a step."""
    return Result(code, message, credentials=token)


class BindExchangeTests(SynchronousTestCase):
    """The requests of the client, and the end of the bind."""

    def test_one_step(self) -> None:
        """The server accepts the first token and proves its identity with its own."""
        exchange = BindExchange()
        self.assertEqual(exchange.produced(b"1", False), b"1")
        self.assertEqual(exchange.answered(result(0, b"proof")), b"proof")
        self.assertFalse(exchange.is_done)
        self.assertIsNone(exchange.produced(None, True))
        self.assertTrue(exchange.is_done)

    def test_more_steps(self) -> None:
        """The server asks for another step, whose result may be empty when the context is complete."""
        exchange = BindExchange()
        exchange.produced(b"1", False)
        self.assertEqual(exchange.answered(result(14, b"2")), b"2")
        self.assertEqual(exchange.produced(b"3", True), b"3")
        self.assertIsNone(exchange.answered(result(0)))
        self.assertTrue(exchange.is_done)

    def test_refused(self) -> None:
        """Every other order of steps is refused, a success without a proof above all."""
        for is_complete, answer, reported in (
            (
                False,
                result(49, message="x data 52e, y"),
                "invalidCredentials: wrong password",
            ),
            (False, result(8), "strongerAuthRequired"),
            (False, result(0), "without a proof of its identity"),
            (False, result(14), "sends no token"),
            (True, result(0, b"more"), "another step of a bind that is complete"),
            (True, result(14, b"more"), "another step of a bind that is complete"),
            (False, result(0, bytes(LONGEST_TOKEN + 1)), f"sent {LONGEST_TOKEN + 1} bytes"),
        ):
            exchange = BindExchange()
            exchange.produced(b"1", is_complete)
            error = self.assertRaises(BindRefusedError, exchange.answered, answer)
            self.assertIn(reported, str(error))
            self.assertFalse(exchange.is_done)

    def test_steps_that_do_not_end(self) -> None:
        """After success the context must be complete and silent; before it must have something to send."""
        for answer, token, is_complete in (
            (result(0, b"x"), b"more", True),
            (result(0, b"x"), None, False),
            (result(14, b"x"), None, True),
        ):
            exchange = BindExchange()
            exchange.produced(b"1", False)
            exchange.answered(answer)
            self.assertRaises(BindRefusedError, exchange.produced, token, is_complete)
            self.assertFalse(exchange.is_done)
        exchange = BindExchange()
        for _ in range(MOST_ROUNDS):
            exchange.produced(b"t", False)
            exchange.answered(result(14, b"t"))
        error = self.assertRaises(BindRefusedError, exchange.produced, b"t", False)
        self.assertIn(f"not complete after {MOST_ROUNDS} steps", str(error))

    def test_channel_binding(self) -> None:
        """RFC 5929 4.1 the hash of the certificate's signature, but SHA-256 for MD5 and SHA-1."""
        for name, digest in (("sha256", sha256), ("sha1", sha256), ("md5", sha256), ("sha384", sha384)):
            expected = b"tls-server-end-point:" + digest(b"certificate").digest()
            self.assertEqual(channel_binding(b"certificate", name), expected)
        self.assertIsNone(channel_binding(b"certificate", None))


class FailureTests(SynchronousTestCase):
    """Kerberos' own texts become one line with what to do."""

    def test_words(self) -> None:
        """Each failure says what to do; an unreachable domain controller is not a configuration fault."""
        away, refused = FailureKind.AWAY, FailureKind.REFUSED
        for said, kind, reported in (
            ("Cannot contact any KDC for realm 'EXAMPLE.COM'", away, "port 88"),
            ('Cannot find KDC for realm "EXAMPLE.COM"', away, "_kerberos._udp.EXAMPLE.COM"),
            ("Cannot resolve network address for KDC in realm", away, "krb5.conf"),
            ("Preauthentication failed", refused, "export the keytab again"),
            ("Decrypt integrity check failed", refused, "export the keytab again"),
            (
                "Client 'A@EXAMPLE.COM' not found in Kerberos database",
                refused,
                "has no account A@EXAMPLE.COM",
            ),
            ("Server ldap/h@EXAMPLE.COM not found in Kerberos database", refused, "full host name"),
            ("Server not found in Kerberos database", refused, "no service ldap/h@EXAMPLE.COM"),
            ("Clock skew too great", refused, "synchronize this computer's clock"),
            ("Ticket expired", away, "the next connection requests others"),
            ("Ticket not yet valid", refused, "synchronize this computer's clock"),
            ("Password has expired", refused, "the password of A@EXAMPLE.COM has expired"),
            ("Client's credentials have been revoked", refused, "disabled, locked out or has expired"),
            ("Client's entry in database has expired", refused, "disabled, locked out or has expired"),
            ("KDC has no support for encryption type", refused, "AES keys"),
            ("No credentials cache found", refused, "no usable key of A@EXAMPLE.COM"),
            ("Something\nelse", refused, "Kerberos refuses A@EXAMPLE.COM: Something else"),
        ):
            wrapped = f"Major (851968): Unspecified GSS failure., Minor (2529638936): {said}"
            for text in (said, wrapped):
                failure = describe_failure(text, "A@EXAMPLE.COM", "ldap/h@EXAMPLE.COM")
                self.assertEqual(failure.kind, kind, said)
                self.assertIn(reported, failure.text)
                self.assertNotIn("\n", failure.text)
                self.assertNotIn("Minor", failure.text)
