"""Where a browser returns to after its login."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from msmq.web.access.request import LOGIN

_LONGEST: Final = 2000
_LOCAL: Final = re.compile(r"/(?![/\\])[!-\[\]-~]*")


def login_address(uri: bytes) -> str:
    """The address of the login, for a browser that has requested another page.

    @param uri: the path and the query of that page.
    """
    following = local_address(uri.decode("ascii", "replace"))
    return f"{LOGIN}?next={quote(following, safe='')}"


def local_address(text: str) -> str:
    """A path of this server, with its query, from an untrusted text; C{/} if it may lead elsewhere."""
    return text if len(text) <= _LONGEST and _LOCAL.fullmatch(text) else "/"
