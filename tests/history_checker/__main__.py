"""C{python -m tests.history_checker FILE...}: the violations in recorded histories."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.history_checker.checker import check_history
from tests.history_checker.operations import NoHistory


def main(arguments: list[str]) -> int:
    """Check each file; 1 if one has a violation, 2 if one is not a history."""
    if not arguments:
        sys.stderr.write("usage: python -m tests.history_checker FILE...\n")
        return 2
    status = 0
    for name in arguments:
        try:
            with Path(name).open(encoding="utf-8") as lines:
                verdict = check_history(lines)
        except (OSError, NoHistory) as error:
            sys.stderr.write(f"{name}: {error}\n")
            return 2
        sys.stdout.write(f"{name}: {verdict}\n")
        status |= bool(verdict.violations)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
