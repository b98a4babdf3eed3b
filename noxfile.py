"""The test suite on each supported version of Python: C{nox}, or C{nox -s tests-3.13} for one."""

from __future__ import annotations

import nox

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["tests"]


@nox.session(python=["3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    """Run the suite, or the modules that the arguments name: C{nox -s tests-3.12 -- tests.wire}."""
    session.install("--constraint", "constraints.txt", "--editable", ".[test]")
    session.run(
        *("python", "-W", "error::RuntimeWarning", "-m", "tests.runner", "--jobs", "4"),
        *(f"--temp-directory=_trial_temp_{session.python}", *(session.posargs or ["tests"])),
    )
