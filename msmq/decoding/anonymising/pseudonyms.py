"""Pseudonyms: replacements of the same length and kind, the same one for the same original."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from hashlib import blake2b
from ipaddress import ip_address
from typing import Final
from uuid import UUID

KEY_SIZE: Final = 32
"""Bytes of the key, which nobody should know afterwards."""

MOST_NAMES: Final = 1_000_000
"""Names for which different pseudonyms are ensured; later ones may share one, which is unlikely."""

_TRIES: Final = 1000
_STRUCTURE: Final = frozenset(
    "direct tcp os http https private public machine multicast dl journal deadletter deadxact system msmq"
    " order_queue admin_queue mqis_queue notify_queue localhost xml xmlns xsi xsd version encoding utf"
    " www w3 org schemas".split()
)
"""Words of names and of XML that say nothing about an estate."""

_IPV4: Final = r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])"
_IPV6: Final = r"(?<![\w:])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])"
_GUID: Final = r"(?<![\w-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![\w-])"
_TOKENS: Final = re.compile(
    rf"(?P<keep><\?xml[^>]*\?>|&#?\w+;)|(?P<guid>{_GUID})|(?P<ip>{_IPV4}|{_IPV6})|(?P<word>[^\W_]+(?:_[^\W_]+)*)"
)


class Pseudonyms:
    """Replaces what identifies an estate or its people.

    Lengths, the case of letters, digits and punctuation stay, and so do words such as C{DIRECT} and
    C{private$}; so a packet has the same sizes afterwards, and a name that occurs twice is recognised.

    @param key: L{KEY_SIZE} random bytes; without them no original can be tried out.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def guid(self, guid: bytes) -> bytes:
        """Another GUID of the same version; the null GUID stays."""
        if guid == bytes(16):
            return guid
        found = bytearray(self._digest(b"guid", guid, 16))
        found[7] = (guid[7] & 0xF0) | (found[7] & 0x0F)
        found[8] = (guid[8] & 0xC0) | (found[8] & 0x3F)
        return bytes(found)

    def address(self, address: str) -> str:
        """Another IP address whose text has as many characters; those of loopback stay."""
        parsed = ip_address(address)
        if parsed.is_loopback or parsed.is_unspecified:
            return address
        text = str(parsed)
        other = self._distinct(text, self._other_ipv4 if parsed.version == 4 else self._other_ipv6)
        return other if text == address else str(ip_address(other))

    def text(self, text: str) -> str:
        """A text whose words, numbers, addresses and GUIDs are replaced."""
        return _TOKENS.sub(self._token, text)

    def data(self, data: bytes) -> bytes:
        """A content: as L{text} if it is text in UTF-8 or UTF-16, otherwise other bytes."""
        if len(data) % 2 == 0 and data[1::2].count(0) * 4 > len(data):
            return self.utf16(data)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return self.opaque(data)
        if any(ord(char) < 32 and char not in "\t\r\n\0" for char in text):
            return self.opaque(data)
        return self.text(text).encode("utf-8")

    def utf16(self, data: bytes) -> bytes:
        """A text in UTF-16 with its NULs."""
        whole = len(data) & ~1
        text = data[:whole].decode("utf-16-le", "surrogatepass")
        return self.text(text).encode("utf-16-le", "surrogatepass") + bytes(len(data) - whole)

    def opaque(self, data: bytes) -> bytes:
        """Other bytes, which depend on all of the original; zeros stay zeros."""
        if not data.strip(b"\0"):
            return data
        seed = self._digest(b"bytes", data, 32)
        blocks = range(0, len(data), 64)
        return b"".join(self._digest(seed, at.to_bytes(8, "little"), 64) for at in blocks)[: len(data)]

    def sid(self, data: bytes) -> bytes:
        """A SID ([MS-DTYP] 2.4.2.2) whose larger subauthorities are replaced; well-known ones stay."""
        found = bytearray(data)
        for at in range(8, len(data) - 3, 4):
            if int.from_bytes(data[at : at + 4], "little") >= 600:
                found[at : at + 4] = self._digest(b"sid", data[: at + 4], 4)
        return bytes(found)

    def _token(self, found: re.Match[str]) -> str:
        match found.lastgroup:
            case "word":
                return self._word(found[0])
            case "guid":
                other = str(UUID(bytes_le=self.guid(UUID(found[0]).bytes_le)))
                return other if found[0].islower() else other.upper()
            case "ip":
                try:
                    return self.address(found[0])
                except ValueError:
                    return re.sub(r"\w+", lambda part: self._word(part[0]), found[0])
            case _:
                return found[0]

    def _word(self, word: str) -> str:
        folded = word.lower()
        if folded in _STRUCTURE or (len(folded) != len(word)):
            return word if folded in _STRUCTURE else "".join(map(_other_char, word, self._stream(word)))
        other = self._distinct(folded, self._other_word)
        return "".join(new.upper() if old.isupper() else new for old, new in zip(word, other, strict=True))

    def _distinct(self, original: str, make: Callable[[str, int], str]) -> str:
        known = self._names.get(original)
        if known is not None:
            return known
        other = make(original, 0)
        for attempt in range(1, _TRIES):
            if other not in self._taken:
                break
            other = make(original, attempt)
        if len(self._names) < MOST_NAMES:
            self._names[original] = other
            self._taken.add(other)
        return other

    def _other_word(self, word: str, attempt: int) -> str:
        return "".join(map(_other_char, word, self._stream(f"{word}\0{attempt}", len(word))))

    def _other_ipv4(self, text: str, attempt: int) -> str:
        digest = iter(self._stream(f"{text}\0{attempt}", 4))
        return ".".join(str(_of_length(octet, next(digest))) for octet in text.split("."))

    def _other_ipv6(self, text: str, attempt: int) -> str:
        digest = iter(self._stream(f"{text}\0{attempt}", len(text)))
        other = re.sub("[0-9a-f]+", lambda part: _other_hex(part[0], digest), text)
        return text if str(ip_address(other)) != other else other

    def _stream(self, text: str, size: int | None = None) -> bytes:
        data = text.encode("utf-8", "surrogatepass")
        size = len(text) if size is None else size
        found = b""
        while len(found) < size:
            found += self._digest(b"text", data + len(found).to_bytes(4, "little"), 64)
        return found[:size]

    def _digest(self, kind: bytes, data: bytes, size: int) -> bytes:
        return blake2b(
            len(kind).to_bytes(1, "little") + kind + data, key=self._key, digest_size=size
        ).digest()


def _other_char(char: str, number: int) -> str:
    """Another character of the same kind, with as many bytes in UTF-8 and in UTF-16."""
    if char.isascii():
        if char.isdigit():
            return chr(ord("0") + number % 10)
        if char.isalpha():
            return chr(ord("A" if char.isupper() else "a") + number % 26)
        return char
    if char < "\u0800":
        return chr(0xE0 + number % 23)
    if char < "\uffff":
        return chr(0x4E00 + number)
    return chr(0x20000 + number)


def _of_length(octet: str, number: int) -> int:
    """Another octet with as many digits."""
    first, count = {1: (0, 10), 2: (10, 90), 3: (100, 156)}[len(octet)]
    return first + number % count


def _other_hex(part: str, digest: Iterator[int]) -> str:
    if part == "0":
        return part
    digits = [format(next(digest) % 16, "x") for _ in part]
    if digits[0] == "0":
        digits[0] = "f"
    return "".join(digits)
