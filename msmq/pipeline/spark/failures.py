"""Errors of Spark in one line, without its stack traces."""

from __future__ import annotations

import re
from typing import Final

_MISSING: Final = re.compile(r"ModuleNotFoundError: No module named '(msmq|pyspark_msmq|pyarrow|attrs?)\b")
_OURS: Final = re.compile(r"(?:^|: )msmq\.[\w.]+: (.+)$", re.MULTILINE)


def reason(error: BaseException) -> str:
    """The error line of msmq within a Spark error; without one, the first line of the error."""
    text = str(error)
    if missing := _MISSING.search(text):
        return (
            f"a Python process of Spark has no module {missing[1]}: install msmq with its extra parquet for"
            " the Python of PYSPARK_PYTHON on every machine of the cluster"
        )
    found = _OURS.findall(text)
    return str(found[-1]) if found else (text.splitlines() or [type(error).__name__])[0]
