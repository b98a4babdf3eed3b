"""The token that callers of the control API show where no file permissions say who they are.

It is kept in a file and shown in the header C{Authorization}; no text and no log of ours ever has it.
"""

from __future__ import annotations

import hmac
import os
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, Final

from twisted.logger import Logger

from msmq.errors import MsmqError

SHORTEST: Final = 32
"""Characters of a token, at least."""
LONGEST: Final = 512
_LARGEST_FILE: Final = 0x4000
_SCHEME: Final = b"bearer"
_VISIBLE: Final = frozenset(range(0x21, 0x7F))


class TokenError(MsmqError):
    """A token file cannot be used; says which and why, and nothing of what is in it."""


class ApiToken:
    """A token, whose C{repr} does not show it.

    @ivar name: its name in logs and events.
    """

    def __init__(self, text: bytes, name: str = "a token") -> None:
        self._text = text
        self.name = name

    def __repr__(self) -> str:
        return "<Token>"

    @property
    def authorization(self) -> str:
        """The value of the header that shows it."""
        return "Bearer " + self._text.decode("ascii")

    @property
    def digest(self) -> bytes:
        """Stands for it where it is compared."""
        return sha256(self._text).digest()


def read_tokens(path: Path) -> list[ApiToken]:
    """The tokens in a file, one a line, each behind a name if it has one.

    A token that has none is called by its number. What stands where a name is expected is no longer than a
    name, so that a token is not taken for one, and told of.

    @raise TokenError: it cannot be read, all users can read it, or a line is not a token.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        raise TokenError(f"token file {path}: {getattr(error, 'strerror', None) or error}") from None
    if stat.S_ISREG(mode) and mode & stat.S_IROTH:
        raise TokenError(f"token file {path}: every user of this computer can read it; chmod 600 ends that")
    lines = [line.strip() for line in data.splitlines() if line.strip()]
    if len(data) > _LARGEST_FILE or not lines:
        raise TokenError(f"token file {path}: it holds no token, or more than {_LARGEST_FILE} bytes")
    return [_token(path, number, line.split()) for number, line in enumerate(lines, 1)]


def _token(path: Path, number: int, words: list[bytes]) -> ApiToken:
    *names, text = words
    if not SHORTEST <= len(text) <= LONGEST or not _VISIBLE.issuperset(text):
        raise TokenError(
            f"token file {path}: token {number} has to have {SHORTEST} to {LONGEST} visible characters"
            " of ASCII"
        )
    if not names:
        return ApiToken(text, f"unnamed token {number}")
    if len(names) > 1 or len(names[0]) >= SHORTEST or not _VISIBLE.issuperset(names[0]):
        raise TokenError(
            f"token file {path}: before token {number} there can be its name, one word of fewer than"
            f" {SHORTEST} visible characters of ASCII"
        )
    return ApiToken(text, f"token {names[0].decode('ascii')}")


class TokenFile:
    """What a server compares with; a file that changes counts at once, so that tokens can be replaced.

    Every token in it is as good as another; its name only says who has it.
    """

    _log: ClassVar[Logger] = Logger()

    def __init__(self, path: Path) -> None:
        """Read a file.

        @raise TokenError: it cannot be used.
        """
        self._path = path
        self._seen = self._look()
        self._names = _names(path)

    def __repr__(self) -> str:
        return f"<TokenFile {self._path}>"

    def name_of(self, authorization: bytes) -> str:
        """The name of the token that the value of an C{Authorization} header shows; empty if it shows none.

        How long this takes says nothing of how close it came.
        """
        self._refresh()
        scheme, _, text = authorization.strip().partition(b" ")
        shown = sha256(text.strip()).digest()
        found = ""
        for digest, name in self._names.items():
            if hmac.compare_digest(digest, shown):
                found = name
        return found if scheme.lower() == _SCHEME else ""

    def read_again(self) -> Callable[[], None]:
        """Read the file, and change nothing yet.

        @return: has what was read count from now on.
        @raise TokenError: it cannot be used.
        """
        seen, names = self._look(), _names(self._path)

        def use() -> None:
            self._seen, self._names = seen, names

        return use

    def _refresh(self) -> None:
        found = self._look()
        if found == self._seen:
            return
        self._seen = found
        try:
            self._names = _names(self._path)
        except TokenError as error:
            self._names = {}
            self._log.error("{error}; all callers are refused until it is readable", error=error)
        else:
            self._log.info("token file {path} has changed and was read again", path=self._path)

    def _look(self) -> tuple[int, ...]:
        try:
            found = self._path.stat()
        except (OSError, ValueError):
            return ()
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _names(path: Path) -> dict[bytes, str]:
    """What the tokens of a file are called, by what stands for each."""
    return {token.digest: token.name for token in read_tokens(path)}
