"""The examples, as tests find and import them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = PROJECT / "examples"


def example(name: str, directory: Path = EXAMPLES) -> Any:
    """The module of an example, which finds its neighbours as it does when it is run."""
    if str(directory) not in sys.path:
        sys.path.append(str(directory))
    return importlib.import_module(name)
