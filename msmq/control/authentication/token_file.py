"""Token file of the server, reloaded when it changes."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import attrs
from twisted.logger import Logger

from msmq.control.authentication.roles import Role
from msmq.control.authentication.tokens import TokenError, read_tokens


@attrs.frozen
class TokenHolder:
    """The holder of a token.

    @ivar name: the name of the token in logs and events.
    @ivar role: the rights.
    @ivar digest: the digest of the token.
    @ivar expires: when it ends, seconds since 1970-01-01 UTC; C{None} for never.
    """

    name: str
    role: Role
    digest: bytes = attrs.field(repr=False)
    expires: float | None = None

    def has_expired(self, now: float) -> bool:
        """Whether it has ended.

        @param now: seconds since 1970-01-01 UTC.
        """
        return self.expires is not None and now >= self.expires


@attrs.frozen(kw_only=True)
class TokenExpiry:
    """The end of a token that has one.

    @ivar token: the name of the token.
    @ivar not_after: when it expires, seconds since 1970-01-01 UTC.
    @ivar remaining: seconds until then by the clock of the server; negative for an expired one.
    """

    token: str
    not_after: float = attrs.field(metadata={"time": True})
    remaining: float


class TokenFile:
    """The accepted tokens; a changed file takes effect at once, so that tokens can be rotated."""

    _log: ClassVar[Logger] = Logger()

    def __init__(self, path: Path) -> None:
        """Read a file.

        @raise TokenError: it cannot be used.
        """
        self._path = path
        self._seen = self._read_stamp()
        self._holders = _holders(path)

    def __repr__(self) -> str:
        return f"<TokenFile {self._path}>"

    def holder_with(self, digest: bytes) -> TokenHolder | None:
        """The holder of the token with this digest, which may have expired; C{None} if the file has it no
        longer.

        The digests are compared in constant time.
        """
        self._refresh()
        found = None
        for holder in self._holders:
            if hmac.compare_digest(holder.digest, digest):
                found = holder
        return found

    def expiries(self, now: float) -> list[TokenExpiry]:
        """The tokens that expire, the first one first.

        @param now: seconds since 1970-01-01 UTC.
        """
        self._refresh()
        ends: dict[str, float] = {}
        for holder in self._holders:
            if holder.expires is not None:
                # A token that replaces another one may have its name; the end of the former is reported.
                ends[holder.name] = min(holder.expires, ends.get(holder.name, holder.expires))
        return [
            TokenExpiry(token=name, not_after=end, remaining=end - now)
            for name, end in sorted(ends.items(), key=lambda item: item[1])
        ]

    def read_again(self) -> Callable[[], None]:
        """Read the file without applying it.

        @return: applies the tokens that were read.
        @raise TokenError: it cannot be used.
        """
        seen, holders = self._read_stamp(), _holders(self._path)

        def use() -> None:
            self._seen, self._holders = seen, holders

        return use

    def _refresh(self) -> None:
        found = self._read_stamp()
        if found == self._seen:
            return
        self._seen = found
        try:
            self._holders = _holders(self._path)
        except TokenError as error:
            self._holders = ()
            self._log.error("{error}; all callers are refused until it is readable", error=error)
        else:
            self._log.info("token file {path} has changed and was read again", path=self._path)

    def _read_stamp(self) -> tuple[int, ...]:
        try:
            found = self._path.stat()
        except (OSError, ValueError):
            return ()
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _holders(path: Path) -> tuple[TokenHolder, ...]:
    """The holders of the tokens in a file."""
    return tuple(
        TokenHolder(token.name, token.role, token.digest, token.expires) for token in read_tokens(path)
    )
