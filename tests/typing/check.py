"""Checks a small project against the public doors with mypy, mypy with mypy-zope, and pyright: C{make lint}.

The project sees C{msmq} as its users do, installed and with C{msmq-stubs}, and not the checkout.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

PROJECT = Path(__file__).resolve().parent / "project"
CHECKOUT = PROJECT.parent.parent.parent

PLUGIN_PARTS = ("zope-stubs", "mypy_zope")
"""What comes with mypy-zope; a project without the plugin does not have it."""

CONFIGURATION = """
[mypy]
strict = True
{plugins}
[mypy-zope.*]
ignore_missing_imports = True
"""


def main() -> int:
    """Run the type checkers; the status is 0 only if each reports the marked lines and no others."""
    failures = 0
    with tempfile.TemporaryDirectory(prefix="msmq-typing-") as name:
        directory = Path(name)
        for program in ("right.py", "wrong.py"):
            shutil.copy(PROJECT / program, directory)
        for title, run in CHECKERS.items():
            wanted = marked(directory / "wrong.py")
            output = run(directory)
            found = reported(output)
            print(f"{title}: {'as expected' if found == wanted else 'failed'}")
            if found != wanted:
                failures += 1
                print(output)
    return 1 if failures else 0


def generator() -> ModuleType:
    """The program that writes the stubs."""
    spec = importlib.util.spec_from_file_location(
        "interface_stubs", CHECKOUT / "packaging" / "interface_stubs.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def marked(path: Path) -> set[tuple[str, int]]:
    """The lines of a program that end with the comment C{error}."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {(path.name, number) for number, line in enumerate(lines, 1) if line.endswith("# error")}


def reported(output: str) -> set[tuple[str, int]]:
    """The lines with errors in the output of a type checker."""
    found = re.findall(r"(\w+\.py):(\d+)(?::\d+)?(?:: error| - error)", output)
    return {(file, int(line)) for file, line in found}


def environment(directory: Path, *, without: Iterable[str]) -> Path:
    """An environment with this one's distributions, and with msmq as a wheel installs it; its interpreter."""
    made = directory / f"environment-{len(list(directory.iterdir()))}"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(made)}))
    ours = {"msmq", "msmq-stubs", "pyspark_msmq", *without}
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.name not in ours and path.suffix != ".pth" and not path.name.startswith("__editable__"):
            (packages / path.name).symlink_to(path)
    shutil.copytree(CHECKOUT / "msmq", packages / "msmq", ignore=shutil.ignore_patterns("__pycache__"))
    generator().write_stubs(packages)
    return made / "bin" / "python"


def run_mypy(directory: Path, plugins: str, without: Iterable[str]) -> str:
    """The output of mypy."""
    configuration = directory / "mypy.ini"
    configuration.write_text(CONFIGURATION.format(plugins=plugins), encoding="utf-8")
    python = environment(directory, without=without)
    return run(
        directory,
        *(sys.executable, "-m", "mypy", "--config-file", configuration, "--python-executable", python),
        *("--cache-dir", os.devnull, "right.py", "wrong.py"),
    )


def run_pyright(directory: Path) -> str:
    """The output of pyright, in the mode that it has by default."""
    python = environment(directory, without=PLUGIN_PARTS)
    settings = {"typeCheckingMode": "standard", "pythonVersion": "3.11"}
    (directory / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = Path(sys.executable).parent / "basedpyright"
    return run(directory, command, "--pythonpath", python, "right.py", "wrong.py")


def run(directory: Path, *command: str | Path) -> str:
    """Run a command; a type checker ends with another status than 0 if it has found an error."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    return done.stdout + done.stderr


CHECKERS: dict[str, Callable[[Path], str]] = {
    "mypy --strict": lambda directory: run_mypy(directory, "", PLUGIN_PARTS),
    "mypy --strict with mypy-zope": lambda directory: run_mypy(directory, "plugins = mypy_zope:plugin", ()),
    "pyright": run_pyright,
}


if __name__ == "__main__":
    sys.exit(main())
