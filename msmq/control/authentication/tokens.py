"""Tokens that authenticate callers of the control API where file permissions cannot.

A token is stored in a file and sent in the header C{Authorization}; errors and logs never contain it.
"""

from __future__ import annotations

import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import Final

from msmq.control.authentication.roles import Role
from msmq.errors import MsmqError

_NAME_DIGITS: Final = 8
"""Hexadecimal digits of the digest that name a token without a name: too few to find a random token by."""

SHORTEST: Final = 32
"""Minimum length of a token, in characters."""
LONGEST: Final = 512
_LARGEST_FILE: Final = 0x4000
_VISIBLE: Final = frozenset(range(0x21, 0x7F))


class TokenError(MsmqError):
    """A token file cannot be used; the text names the file and the reason, never its contents."""


class ApiToken:
    """A token, whose C{repr} does not show it.

    @ivar name: its name in logs and events.
    @ivar role: its rights.
    """

    def __init__(self, text: bytes, name: str, role: Role) -> None:
        self._text = text
        self.name = name
        self.role = role

    def __repr__(self) -> str:
        return "<Token>"

    @property
    def authorization(self) -> str:
        """The value of the C{Authorization} header."""
        return "Bearer " + self._text.decode("ascii")

    @property
    def digest(self) -> bytes:
        """The digest of the token, for comparisons."""
        return sha256(self._text).digest()


def read_tokens(path: Path) -> list[ApiToken]:
    """Read the tokens of a file: C{NAME ROLE TOKEN}, one a line.

    C{NAME TOKEN} and C{TOKEN}, as earlier versions had them, have the role C{admin}, except that a token
    which is named as a role has that role. A token without a name is named by the first digits of its SHA-256
    digest, since its position changes with other lines of the file. The length of names is limited, so that a
    token in the position of a name is refused instead of logged.

    @raise TokenError: the file cannot be read, is readable or writable by all users, has a line that is not a
        token, or has a token twice with different names or roles.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        raise TokenError(f"token file {path}: {getattr(error, 'strerror', None) or error}") from None
    if stat.S_ISREG(mode) and mode & (stat.S_IROTH | stat.S_IWOTH):
        can = "readable" if mode & stat.S_IROTH else "writable"
        raise TokenError(f"token file {path}: it is {can} by every user of this computer; run chmod 600")
    lines = [line.strip() for line in data.splitlines() if line.strip()]
    if len(data) > _LARGEST_FILE or not lines:
        raise TokenError(f"token file {path}: it holds no token, or more than {_LARGEST_FILE} bytes")
    tokens = [_token(path, number, line.split()) for number, line in enumerate(lines, 1)]
    # A token that is there again with the same name and role is the same one.
    holders = [(line.split()[:-1][:1], token.role) for line, token in zip(lines, tokens, strict=True)]
    numbers: dict[bytes, int] = {}
    for number, token in enumerate(tokens, 1):
        former = numbers.setdefault(token.digest, number)
        if holders[former - 1] != holders[number - 1]:
            raise TokenError(
                f"token file {path}: token {number} ({token.name}) is the same as token {former}"
                f" ({tokens[former - 1].name}), with another name or role; remove one of them"
            )
    return tokens


def _token(path: Path, number: int, words: list[bytes]) -> ApiToken:
    *words, text = words
    if not SHORTEST <= len(text) <= LONGEST or not _VISIBLE.issuperset(text):
        raise TokenError(
            f"token file {path}: token {number} must have {SHORTEST} to {LONGEST} visible characters of ASCII"
        )
    if not words:
        return ApiToken(text, f"unnamed token {sha256(text).hexdigest()[:_NAME_DIGITS]}", Role.ADMIN)
    name, *roles = words
    if len(roles) > 1 or len(name) >= SHORTEST or not _VISIBLE.issuperset(name):
        raise TokenError(
            f"token file {path}: the name of token {number} must be one word of fewer than"
            f" {SHORTEST} visible characters of ASCII"
        )
    # Without a role a name such as "monitor" is taken as the role too, which cannot be more than was meant.
    role = Role.parse((roles or words)[0].decode("ascii", "replace"))
    if role is None and not roles:
        role = Role.ADMIN
    if role is None:
        # The word may be a token in the position of a role, so it is not shown.
        raise TokenError(
            f"token file {path}: the role of token {number} must be monitor, reader, operator or admin"
        )
    return ApiToken(text, f"token {name.decode('ascii')}", role)
