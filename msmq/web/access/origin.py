"""Which web sites may send requests through a browser, decided from the head of a request."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

import attrs

_SAFE: Final = ("GET", "HEAD")
_OWN_SITE: Final = ("same-origin", "none", "")
"""Values of C{Sec-Fetch-Site} for this site, for an address that the user entered, and for other clients."""


@attrs.frozen
class RequestOrigin:
    """What the head of a request has on its origin.

    @ivar method: the HTTP method.
    @ivar hosts: the values of C{Host}.
    @ivar origins: the values of C{Origin}.
    @ivar fetch_site: the value of C{Sec-Fetch-Site}, which browsers set; so is C{fetch_mode}.
    @ivar is_secure: whether the request came over TLS.
    @ivar is_page: whether it is for a page, which other sites may link to.
    """

    method: str
    hosts: Sequence[str]
    origins: Sequence[str]
    fetch_site: str
    fetch_mode: str
    is_secure: bool
    is_page: bool

    def problem(self, *, is_loopback: bool) -> str:
        """Why the request is refused; empty if it is not.

        On a loopback endpoint the C{Host} must be a name of the loopback interface: a page of another site,
        whose name resolves to this computer (DNS rebinding), has a name of its own there.
        """
        if is_loopback and not all(map(is_loopback_host, self.hosts)):
            return "the Host of the request is not a loopback name or address"
        if len(self.hosts) > 1:
            return "the request has more than one Host"
        scheme = "https" if self.is_secure else "http"
        own = [f"{scheme}://{host.strip().lower()}" for host in self.hosts]
        if any(origin.strip().lower() not in own for origin in self.origins):
            return "the Origin of the request is another site"
        if self.fetch_site.lower() not in _OWN_SITE and not self._follows_a_link:
            return "the request was caused by a page of another site"
        return ""

    @property
    def _follows_a_link(self) -> bool:
        return self.is_page and self.method in _SAFE and self.fetch_mode.lower() == "navigate"


def is_loopback_host(host: str) -> bool:
    """Whether the value of a C{Host} header is a name or an address of the loopback interface."""
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.rpartition(":")[0] or name
    if name.rstrip(".") == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
