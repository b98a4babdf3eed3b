"""Pseudonyms: replacements of the same length and kind, the same one for the same original."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from hashlib import blake2b
from ipaddress import ip_address
from typing import Final
from uuid import UUID

KEY_SIZE: Final = 32
"""Bytes of the key: random, and not stored."""

MOST_NAMES: Final = 1_000_000
"""Names for which different pseudonyms are ensured; later ones may share one, which is unlikely."""

_LONGEST_NAME: Final = 256
"""Characters of a name for which a different pseudonym is ensured; longer ones hardly ever share one."""
_TRIES: Final = 1000
_STRUCTURE: Final = frozenset(
    "direct tcp os http https private public machine multicast dl journal deadletter deadxact system msmq"
    " order_queue admin_queue mqis_queue notify_queue localhost xml xmlns xsi xsd cdata doctype element"
    " entity www w3 org schemas".split()
)
"""Words of names and of XML that every estate has."""

_IPV4: Final = r"(?<![\w.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![\w.])"
_IPV6: Final = r"(?:(?<![\w:])|(?<=[tT][cC][pP]:))(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])"
_GUID: Final = r"(?<![\w-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![\w-])"
_ENCODING: Final = r"(?i:utf-8|utf-16|us-ascii|iso-8859-1|windows-1252)"
_DECLARATION: Final = (
    rf"<\?xml version=[\"']1\.[01][\"'](?: encoding=[\"']{_ENCODING}[\"'])?"
    r"(?: standalone=[\"'](?:yes|no)[\"'])? ?\?>"
)
_WORD: Final = r"[0-9A-Za-z\x80-\U0010ffff]+"
_CONTROL: Final = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f]")
_TOKENS: Final = re.compile(
    rf"(?P<keep>{_DECLARATION}|&(?:amp|lt|gt|quot|apos);)|&#(?P<reference>[0-9]{{1,7}}|x[0-9A-Fa-f]{{1,6}});"
    rf"|(?P<guid>{_GUID})|(?P<ip>{_IPV4}|{_IPV6})|(?P<word>{_WORD}(?:_{_WORD})*)"
)


class Pseudonyms:
    """Replaces what identifies an estate or its people.

    Lengths, the case of letters in ASCII, and white space and punctuation in ASCII stay, and so do words such
    as C{DIRECT} and C{private$}; so a packet has the same sizes afterwards, and a name that occurs twice is
    recognised.

    @param key: L{KEY_SIZE} random bytes; without them a guess of an original cannot be verified.
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
        """Another IP address whose shortest text has as many characters; those of loopback stay.

        @raise ValueError: it is no address.
        """
        parsed = ip_address(address)
        if parsed.is_loopback or parsed.is_unspecified:
            return address
        return self._distinct(str(parsed), self._other_ipv4 if parsed.version == 4 else self._other_ipv6)

    def text(self, text: str) -> str:
        """A text whose words, numbers, addresses and GUIDs are replaced."""
        return _TOKENS.sub(self._token, text)

    def data(self, data: bytes) -> bytes:
        """A content: as L{text} if it is text in UTF-8 or UTF-16, otherwise other bytes.

        Numbers of two or four bytes look like UTF-16, of which punctuation and control characters would stay.
        """
        if len(data) % 2 == 0 and data[1::2].count(0) * 4 > len(data):
            text = data.decode("utf-16-le", "surrogatepass")
            is_text = _is_text(text) and "\0" not in text.rstrip("\0")
            return self.utf16(data) if is_text else self.opaque(data)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return self.opaque(data)
        return self.text(text).encode("utf-8") if _is_text(text) else self.opaque(data)

    def utf16(self, data: bytes) -> bytes:
        """A text in UTF-16 with its NULs."""
        whole = len(data) & ~1
        text = data[:whole].decode("utf-16-le", "surrogatepass")
        return self.text(text).encode("utf-16-le", "surrogatepass") + bytes(len(data) - whole)

    def opaque(self, data: bytes) -> bytes:
        """Other bytes, which depend on all of the original; zeros stay zeros."""
        if not data.strip(b"\0"):
            return data
        return self._stream(b"bytes", data, len(data))

    def sid(self, data: bytes) -> bytes:
        """A SID ([MS-DTYP] 2.4.2.2) whose subauthorities from 600 on are replaced; well-known ones stay."""
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
                return self._address_text(found[0])
            case "reference":
                return f"&#{self._other_reference(found['reference'])};"
            case _:
                return found[0]

    def _address_text(self, text: str) -> str:
        """An address in a text, which may be longer than its shortest form, or only look like one."""
        try:
            other = self.address(text)
        except ValueError:
            other = ""
        if len(other) == len(text):
            return other
        return re.sub(r"[0-9A-Za-z]+", lambda part: self._word(part[0]), text)

    def _other_reference(self, number: str) -> str:
        """The number of another character of XML, in a reference of the same length."""
        is_hex = number[0] == "x"
        digits = number[1:] if is_hex else number
        if len(digits) < 3:
            return "x" * is_hex + ("9" if len(digits) == 1 else "41" if is_hex else "65")
        if len(digits) > 5:
            # The largest character of Unicode is 10FFFF.
            return "x" * is_hex + "10".ljust(len(digits), "0")
        found = self._numbers(number, len(digits) - 1)
        return "x" * is_hex + "1" + "".join(str(each % 10) for each in found)

    def _word(self, word: str) -> str:
        if not word.isascii():
            return self._distinct(word, self._other_word)
        folded = word.lower()
        if folded in _STRUCTURE:
            return word
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
        if len(original) <= _LONGEST_NAME and len(self._names) < MOST_NAMES:
            self._names[original] = other
            self._taken.add(other)
        return other

    def _other_word(self, word: str, attempt: int) -> str:
        return "".join(map(_other_char, word, self._numbers(f"{word}\0{attempt}", len(word))))

    def _other_ipv4(self, text: str, attempt: int) -> str:
        digest = iter(self._numbers(f"{text}\0{attempt}", 4))
        return ".".join(str(_of_length(octet, next(digest))) for octet in text.split("."))

    def _other_ipv6(self, text: str, attempt: int) -> str:
        digest = iter(self._numbers(f"{text}\0{attempt}", 32))
        groups = ip_address(text).exploded.split(":")
        return str(ip_address(":".join(_other_group(group.lstrip("0"), digest) for group in groups)))

    def _numbers(self, text: str, size: int) -> bytes:
        return self._stream(b"text", text.encode("utf-8", "surrogatepass"), size)

    def _stream(self, kind: bytes, data: bytes, size: int) -> bytes:
        seed = self._digest(kind, data, 32)
        blocks = range(0, size, 64)
        return b"".join(self._digest(seed, at.to_bytes(8, "little"), 64) for at in blocks)[:size]

    def _digest(self, kind: bytes, data: bytes, size: int) -> bytes:
        return blake2b(
            len(kind).to_bytes(1, "little") + kind + data, key=self._key, digest_size=size
        ).digest()


def _is_text(text: str) -> bool:
    """Whether a content is text: it has letters or digits, and no control characters."""
    return _CONTROL.search(text) is None and any(map(str.isalnum, text))


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
    if char <= "\uffff":
        return chr(0x4E00 + number)
    return chr(0x20000 + number)


def _of_length(octet: str, number: int) -> int:
    """Another octet with as many digits."""
    first, count = {1: (0, 10), 2: (10, 90), 3: (100, 156)}[len(octet)]
    return first + number % count


def _other_group(group: str, digest: Iterator[int]) -> str:
    """Another group of an IPv6 address with as many digits; that of zeros stays."""
    digits = [format(next(digest) % 16, "x") for _ in group]
    if digits and digits[0] == "0":
        digits[0] = "f"
    return "".join(digits) or "0"
