"""Errors of Spark in one line, without its stack traces."""

from __future__ import annotations

import re
from typing import Final

_OURS: Final = re.compile(r"(?:^|: )msmq\.[\w.]+: (.+)$", re.MULTILINE)


def reason(error: BaseException) -> str:
    """The error line of msmq within a Spark error; without one, the first line of the error."""
    text = str(error)
    found = _OURS.findall(text)
    return str(found[-1]) if found else (text.splitlines() or [type(error).__name__])[0]
