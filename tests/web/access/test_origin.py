"""Requests that other web sites cause, decided from their heads."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.web.access.login import local_address
from msmq.web.access.origin import RequestOrigin, is_loopback_host

_OWN = RequestOrigin("GET", ["localhost:15801"], [], "", "", is_secure=False, is_page=True)


def _problem(is_loopback: bool = True, **facts: Any) -> str:
    return attrs.evolve(_OWN, **facts).problem(is_loopback=is_loopback)


class OriginTests(SynchronousTestCase):
    """One request."""

    def test_host(self) -> None:
        """On loopback the Host is a name of the loopback interface; elsewhere any one name."""
        for host in ("localhost", "LOCALHOST.:1", "127.8.9.1:15801", "[::1]:15801"):
            self.assertTrue(is_loopback_host(host), host)
        for host in (
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:15801",
            "192.0.2.1",
            "",
        ):
            self.assertFalse(is_loopback_host(host), host)
            self.assertIn("Host", _problem(hosts=[host]))
        self.assertEqual(_problem(is_loopback=False, hosts=["alpha.example.com"]), "")
        self.assertIn("more than one", _problem(is_loopback=False, hosts=["a.example", "b.example"]))

    def test_origin(self) -> None:
        """An Origin is this server's: scheme, name and port."""
        self.assertEqual(_problem(method="POST", origins=["http://LOCALHOST:15801"]), "")
        for origin in (
            "null",
            "http://localhost",
            "https://localhost:15801",
            "http://evil.example:15801",
            "",
        ):
            self.assertIn("Origin", _problem(method="POST", origins=[origin]), origin)
        secure: dict[str, Any] = {"hosts": ["alpha.example.com"], "is_secure": True, "is_loopback": False}
        self.assertEqual(_problem(origins=["https://alpha.example.com"], **secure), "")
        self.assertIn("Origin", _problem(origins=["http://alpha.example.com"], **secure))
        self.assertIn("Origin", _problem(hosts=[], origins=["http://"]))

    def test_fetch_metadata(self) -> None:
        """Other sites, other ports of this host included, may link to a page and cause no other request."""
        for site in ("same-origin", "none", ""):
            self.assertEqual(_problem(method="POST", fetch_site=site), "")
        for site in ("same-site", "cross-site", "new-value"):
            self.assertEqual(_problem(fetch_site=site, fetch_mode="navigate"), "")
            for facts in (
                {"fetch_mode": "no-cors"},
                {"fetch_mode": "navigate", "method": "POST"},
                {"fetch_mode": "navigate", "is_page": False},
            ):
                self.assertIn("another site", _problem(fetch_site=site, **facts), (site, facts))


class LocalAddressTests(SynchronousTestCase):
    """The page after the login, from an address that anyone can write."""

    def test_addresses(self) -> None:
        """A path of this server with its query is followed, anything else leads to the first page."""
        for address in ("/", "/queue?path=.%5Cprivate$%5Corders", "/messages?queue=a&id=7#x"):
            self.assertEqual(local_address(address), address)
        for address in (
            "",
            "//evil.example",
            "/\\evil.example",
            "/a\\b",
            "https://evil.example",
            "javascript:alert(1)",
            "/a\r\nX: 1",
            "/a\n",
            "/ü",
            "/" + "a" * 2000,
        ):
            self.assertEqual(local_address(address), "/", address)
