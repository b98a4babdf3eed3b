"""The section [security] of the configuration."""

from __future__ import annotations

from msmq.service.configuration import (
    check,
    load,
)
from tests.service.test_configuration import ReadingTestCase


class SecurityTests(ReadingTestCase):
    """C{[security]}: the trusted peers of a server."""

    def test_ciphers(self) -> None:
        """MQQB-3.1.1.3-05: AES for the advanced level, RC2 or RC4 for the others; nothing else is taken."""
        text = """[security]
preferred_advanced_algorithm = "AES-128"
preferred_enhanced_algorithm = "RC2"
preferred_base_algorithm = "RC2"
weak_algorithms = true
encryption_key_bits = 1024
"""
        security = load(self.write(text)).security
        self.assertEqual(
            (
                security.preferred_advanced_algorithm,
                security.preferred_enhanced_algorithm,
                security.preferred_base_algorithm,
            ),
            ("AES-128", "RC2", "RC2"),
        )
        self.assertEqual((security.weak_algorithms, security.encryption_key_bits), (True, 1024))
        wrong = text.replace("AES-128", "RC4").replace('"RC2"', '"AES-256"').replace("1024", "512")
        self.assertEqual(
            [(line, key) for line, key, _ in self.problems(wrong)],
            [
                (2, "security.preferred_advanced_algorithm"),
                (3, "security.preferred_enhanced_algorithm"),
                (4, "security.preferred_base_algorithm"),
                (6, "security.encryption_key_bits"),
            ],
        )
        self.assertFalse(load().security.weak_algorithms)

    def test_trusted_addresses(self) -> None:
        """Addresses and networks; without them, only this machine."""
        read = load(
            self.write('[security]\nunauthenticated = "loopback"\npeers = ["192.0.2.7", "10.0.0.0/8"]\n')
        )
        self.assertEqual(read.security.unauthenticated, "loopback")
        self.assertEqual([str(each) for each in read.security.peers], ["192.0.2.7/32", "10.0.0.0/8"])
        self.assertEqual((load().security.unauthenticated, load().security.peers), (None, ()))

    def test_addresses_that_may_acknowledge(self) -> None:
        """Addresses and networks; without them, all."""
        read = load(self.write('[security]\nacknowledgements_from = ["10.0.0.0/8"]\n'))
        self.assertEqual([str(each) for each in read.security.acknowledgements_from], ["10.0.0.0/8"])
        self.assertEqual(load().security.acknowledgements_from, ())

    def test_each_invalid_address_has_its_line(self) -> None:
        """Each element of the array has its own line."""
        text = '[security]\nunauthenticated = "nobody"\npeers = [\n "192.0.2.7",\n "BETA",\n 7,\n]\n'
        self.assertEqual(
            self.problems(text),
            [
                (2, "security.unauthenticated", 'must be "loopback", "deny" or "allow", not \'nobody\''),
                (5, "security.peers[1]", "must be an IP address or a network as 192.0.2.0/24, not 'BETA'"),
                (6, "security.peers[2]", "must be an IP address or a network as text, not a whole number"),
            ],
        )

    def test_trusted_peers_that_are_denied(self) -> None:
        """C{peers} cannot be combined with C{unauthenticated = "deny"}."""
        text = '[security]\nunauthenticated = "deny"\npeers = ["192.0.2.7"]\n'
        self.assertEqual(
            self.problems(text),
            [(3, "security.peers", 'refuses every message, because unauthenticated is "deny"')],
        )

    def test_rules(self) -> None:
        """A mistake in a file of rules is reported with its own path and line, a missing file with the
        key's.
        """
        rules = self.write("[[queue]]\npath = 'a'\nallow.nobody = 'send'\n")
        [problem] = check(self.write(f"[security]\nrules = '{rules}'\n"))
        self.assertEqual((problem.path, problem.line, problem.key), (rules, 3, "queue[0].allow.nobody"))
        self.assertEqual(
            self.problems("[security]\n\nrules = '/nonexistent'\n"),
            [(3, "security.rules", "names /nonexistent, which cannot be read: No such file or directory")],
        )
        rules = self.write("[names]\nclerks = 'S-1-5-21-1-2-3-2001'\n")
        load(self.write(f"[security]\nrules = '{rules}'\nowner = 'clerks'\n"))
        [(line, key, words)] = self.problems("[security]\nowner = 'clerks'\n")
        self.assertEqual((line, key), (2, "security.owner"))
        self.assertIn("'clerks' is neither a SID nor any of", words)

    def test_warning_without_trusted_peers(self) -> None:
        """A server that others reach has a warning, unless the configuration names trusted peers."""
        reached = '[listen]\nsession = "tcp:1801:interface=192.0.2.1"\n'
        for text, lines in (
            ("", []),
            ('[listen]\nsession = "tcp:1801:interface=127.0.0.9"\n', []),
            ('[listen]\nsession = "tcp6:1801:interface=\\\\:\\\\:1"\n', []),
            ('[listen]\nsession = "off"\n', []),
            (reached, [2]),
            ('[listen]\nsession = "tcp:1801"\n', [2]),
            ('[listen]\nsession = "tcp6:1801"\n', [2]),
            (reached + '[security]\nunauthenticated = "loopback"\n', []),
            (reached + '[security]\npeers = ["192.0.2.0/24"]\n', []),
            (reached + "[security]\npeers = []\n", [2]),
        ):
            problems = check(self.write(text))
            self.assertEqual([problem.line for problem in problems], lines, text)
            self.assertTrue(all(problem.is_warning for problem in problems))
            load(self.write(text))
