"""Tokens that authenticate callers of the control API where file permissions cannot.

A token is stored in a file and sent in the header C{Authorization}; errors and logs never contain it.
"""

from __future__ import annotations

import os
import re
import stat
from datetime import UTC, datetime
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
_DIGEST: Final = b"sha256:"
_DIGEST_FORM: Final = re.compile(rb"sha256:([0-9A-Fa-f]{64})")
_EXPIRES: Final = b"expires="
_VISIBLE: Final = frozenset(range(0x21, 0x7F))


class TokenError(MsmqError):
    """A token file cannot be used; the text names the file and the reason, never its contents."""


class ApiToken:
    """A token, or what a server knows of one: its digest. Its C{repr} shows neither.

    @ivar name: its name in logs and events.
    @ivar role: its rights.
    @ivar digest: the SHA-256 digest of the token, for comparisons.
    @ivar expires: when it ends, seconds since 1970-01-01 UTC; C{None} for never.
    """

    def __init__(
        self, text: bytes | None, digest: bytes, name: str, role: Role, expires: float | None
    ) -> None:
        self._text = text
        self.digest = digest
        self.name = name
        self.role = role
        self.expires = expires

    def __repr__(self) -> str:
        return "<Token>"

    @property
    def authorization(self) -> str:
        """The value of the C{Authorization} header.

        @raise TokenError: only the digest is known.
        """
        if self._text is None:
            raise TokenError(f"the file has the digest of {self.name}; a client needs the token itself")
        return "Bearer " + self._text.decode("ascii")


def read_own_token(path: Path) -> ApiToken:
    """Read the token that a client presents: the first one of a file.

    @raise TokenError: as of L{read_tokens}, or the file has only its digest.
    """
    token = read_tokens(path)[0]
    try:
        _ = token.authorization
    except TokenError as error:
        raise TokenError(f"token file {path}: {error}") from None
    return token


def read_tokens(path: Path) -> list[ApiToken]:
    """Read the tokens of a file: C{NAME ROLE TOKEN}, one a line.

    C{sha256:} and the digest of a token in hexadecimal digits may stand for the token, and C{expires=} with a
    date or a time in ISO 8601, UTC unless it has an offset, may follow; a date is its first second.

    C{NAME TOKEN} and C{TOKEN}, as earlier versions had them, have the role C{admin}, except that a token
    which is named as a role has that role. A token without a name is named by the first digits of its SHA-256
    digest, since its position changes with other lines of the file. The length of names is limited, so that a
    token in the position of a name is refused instead of logged.

    @raise TokenError: the file cannot be read, is readable or writable by all users, has a line that is not a
        token, or has a token twice with different names, roles or expiries.
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
    tokens = [_token(f"token file {path}: ", number, line.split()) for number, line in enumerate(lines, 1)]
    # A token that is there again with the same name and role is the same one.
    holders = [(token.name, token.role, token.expires) for token in tokens]
    numbers: dict[bytes, int] = {}
    for number, token in enumerate(tokens, 1):
        former = numbers.setdefault(token.digest, number)
        if holders[former - 1] != holders[number - 1]:
            raise TokenError(
                f"token file {path}: token {number} ({token.name}) is the same as token {former}"
                f" ({tokens[former - 1].name}), with another name, role or expiry; remove one of them"
            )
    return tokens


def parse_token_line(line: bytes) -> ApiToken:
    """Parse one line of a token file.

    @raise TokenError: it is not a token.
    """
    return _token("", 1, line.split())


def _token(where: str, number: int, words: list[bytes]) -> ApiToken:
    expires = None
    if words[-1].startswith(_EXPIRES):
        *words, word = words
        expires = _time(where, number, word.removeprefix(_EXPIRES))
    *words, text = words or [b""]
    if not SHORTEST <= len(text) <= LONGEST or not _VISIBLE.issuperset(text):
        raise TokenError(
            f"{where}token {number} must have {SHORTEST} to {LONGEST} visible characters of ASCII"
        )
    if text.startswith(_DIGEST):
        if (found := _DIGEST_FORM.fullmatch(text)) is None:
            raise TokenError(f"{where}the digest of token {number} must have 64 hexadecimal digits")
        secret, digest = None, bytes.fromhex(found[1].decode("ascii"))
    else:
        secret, digest = text, sha256(text).digest()
    if not words:
        name = f"unnamed token {digest.hex()[:_NAME_DIGITS]}"
        return ApiToken(secret, digest, name, Role.ADMIN, expires)
    word, *roles = words
    if len(roles) > 1 or len(word) >= SHORTEST or not _VISIBLE.issuperset(word):
        raise TokenError(
            f"{where}the name of token {number} must be one word of fewer than"
            f" {SHORTEST} visible characters of ASCII"
        )
    # Without a role a name such as "monitor" is taken as the role too, which cannot be more than was meant.
    role = Role.parse((roles or words)[0].decode("ascii", "replace"))
    if role is None and not roles:
        role = Role.ADMIN
    if role is None:
        # The word may be a token in the position of a role, so it is not shown.
        raise TokenError(f"{where}the role of token {number} must be monitor, reader, operator or admin")
    return ApiToken(secret, digest, f"token {word.decode('ascii')}", role, expires)


def _time(where: str, number: int, word: bytes) -> float:
    try:
        moment = datetime.fromisoformat(word.decode("ascii"))
    except ValueError:
        raise TokenError(
            f"{where}expires of token {number} must be a date or time of UTC in ISO 8601, as"
            " 2027-01-31 or 2027-01-31T12:00:00Z"
        ) from None
    return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).timestamp()
