"""Token file of the server, reloaded when it changes."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, Final

from twisted.logger import Logger

from msmq.control.authentication.tokens import TokenError, read_tokens

_SCHEME: Final = b"bearer"


class TokenFile:
    """The accepted tokens; a changed file takes effect at once, so that tokens can be rotated.

    All tokens in it have the same rights; the name only identifies the holder.
    """

    _log: ClassVar[Logger] = Logger()

    def __init__(self, path: Path) -> None:
        """Read a file.

        @raise TokenError: it cannot be used.
        """
        self._path = path
        self._seen = self._read_stamp()
        self._names = _names(path)

    def __repr__(self) -> str:
        return f"<TokenFile {self._path}>"

    def name_of(self, authorization: bytes) -> str:
        """The name of the token in the value of an C{Authorization} header; empty if it is not a valid one.

        The digests are compared in constant time.
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
        """Read the file without applying it.

        @return: applies the tokens that were read.
        @raise TokenError: it cannot be used.
        """
        seen, names = self._read_stamp(), _names(self._path)

        def use() -> None:
            self._seen, self._names = seen, names

        return use

    def _refresh(self) -> None:
        found = self._read_stamp()
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

    def _read_stamp(self) -> tuple[int, ...]:
        try:
            found = self._path.stat()
        except (OSError, ValueError):
            return ()
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _names(path: Path) -> dict[bytes, str]:
    """The names of the tokens in a file, by digest."""
    return {token.digest: token.name for token in read_tokens(path)}
