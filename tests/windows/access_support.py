"""The rows of access_table.txt, the tokens in it, and how Samba is asked about them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from twisted.trial.unittest import SkipTest

from msmq.windows.access_check import Privilege, Token
from msmq.windows.access_masks import QUEUE_KIND
from msmq.windows.sddl import parse_sddl
from msmq.windows.security_descriptor import SecurityDescriptor
from msmq.wire.sid import format_sid, parse_sid

PYTHON: Final = "/usr/bin/python3"
HERE: Final = Path(__file__).parent

DOMAIN: Final = parse_sid("S-1-5-21-1-2-3")


def account(rid: int) -> bytes:
    """A user or group of the domain."""
    return parse_sid(f"S-1-5-21-1-2-3-{rid}")


def token(user: bytes | str, *groups: bytes | str, privileges: Sequence[Privilege] = ()) -> Token:
    """A token, of SIDs or their texts."""
    sids = [parse_sid(each) if isinstance(each, str) else each for each in (user, *groups)]
    return Token(sids[0], frozenset(sids[1:]), frozenset(privileges))


EVERYONE, AUTHENTICATED, ADMINISTRATORS = "S-1-1-0", "S-1-5-11", "S-1-5-32-544"
CLERKS, USERS = account(2001), account(513)

TOKENS: Final = {
    "anonymous": token("S-1-5-7", EVERYONE),
    # [everyone, authenticated users, domain users, clerks]
    "alice": token(account(1001), EVERYONE, AUTHENTICATED, USERS, CLERKS),
    # [everyone, authenticated users, domain users]
    "bob": token(account(1002), EVERYONE, AUTHENTICATED, USERS),
    "guest": token(account(501), EVERYONE),
    "admin": token(account(500), EVERYONE, AUTHENTICATED, USERS, ADMINISTRATORS),
    "system": token("S-1-5-18", EVERYONE, AUTHENTICATED, ADMINISTRATORS),
    "machine": token(account(1501), EVERYONE, AUTHENTICATED),
    # in no group at all
    "foreign": token("S-1-5-21-9-9-9-1"),
    "carol": token(account(1003), EVERYONE, AUTHENTICATED, privileges=[Privilege.SECURITY]),
    "dave": token(account(1004), EVERYONE, AUTHENTICATED, privileges=[Privilege.TAKE_OWNERSHIP]),
}

RIGHTS: Final = {
    "DEL": 0x1,
    "PEEK": 0x2,
    "RECV": 0x3,
    "SEND": 0x4,
    "DELJ": 0x8,
    "SETP": 0x10,
    "GETP": 0x20,
    "DELQ": 0x10000,
    "GETS": 0x20000,
    "SETS": 0x40000,
    "OWN": 0x80000,
    "ALL": 0xF003F,
    "SEC": 0x1000000,
    "MAX": 0x2000000,
    "GA": 0x10000000,
    "GX": 0x20000000,
    "GW": 0x40000000,
    "GR": 0x80000000,
}


@attrs.frozen
class Row:
    """A request for rights to a descriptor, and its result.

    @ivar line: where it stands.
    @ivar granted: the rights that are granted; C{None} if it is denied.
    """

    line: int
    sddl: str
    who: str
    asked: int
    granted: int | None

    @property
    def descriptor(self) -> SecurityDescriptor:
        """The descriptor of the request."""
        return parse_sddl(self.sddl, DOMAIN)


def rows() -> Iterator[Row]:
    """The table."""
    sddl = ""
    for number, line in enumerate((HERE / "access_table.txt").read_text().splitlines(), 1):
        if line.startswith("  "):
            who, rights, answer = line.split()
            asked = sum(RIGHTS[right] for right in rights.split("+"))
            granted = QUEUE_KIND.mapping.specific(asked) if answer == "yes" else None
            yield Row(number, sddl, who, asked, int(answer, 16) if answer[0] == "0" else granted)
        elif line and not line.startswith("#"):
            sddl = line


def question(descriptor: SecurityDescriptor, who: Token, asked: int) -> dict[str, Any]:
    """An access check, as Samba is asked for it."""
    return {
        "descriptor": descriptor.to_bytes().hex(),
        "sids": [format_sid(who.user), *map(format_sid, sorted(who.groups))],
        "privileges": [privilege.value for privilege in who.privileges],
        "asked": asked,
    }


def ask_samba(questions: Sequence[dict[str, Any]]) -> list[Any]:
    """The answers of Samba to these requests.

    @raise SkipTest: it is not installed.
    """
    if (
        not Path(PYTHON).exists()
        or subprocess.run([PYTHON, "-c", "import samba"], capture_output=True).returncode
    ):
        raise SkipTest("Samba's Python is not installed (Debian's package python3-samba)")
    text = "".join(json.dumps(each) + "\n" for each in questions)
    answered = subprocess.run(
        [PYTHON, str(HERE / "samba_judge.py")], input=text, capture_output=True, text=True, check=False
    )
    if answered.returncode:
        raise AssertionError(answered.stderr)
    return [json.loads(line) for line in answered.stdout.splitlines()]
