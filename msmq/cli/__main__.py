"""Lets C{python -m msmq.cli} stand for the command C{msmq}."""

from __future__ import annotations

import sys

from msmq.cli import main

sys.exit(main())
