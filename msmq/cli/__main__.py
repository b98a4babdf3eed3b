"""Runs the command C{msmq} as C{python -m msmq.cli}."""

from __future__ import annotations

import sys

from msmq.cli import main

sys.exit(main())
