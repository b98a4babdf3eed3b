"""Tests in forked processes, with a mutation or with a trace of the lines that they reach."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import unittest
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

from twisted.python import log
from twisted.trial.runner import TestLoader

# Without it tests that draw their examples would have other settings than in the suite.
from tests import samples as samples
from tests.mutants.mutations import BODY, PROJECT, Mutation, Stale, import_anew

CPU_LIMIT: Final = 60
"""Seconds of processor time after which a mutant is taken to go in a circle, which a test would notice."""
KEPT: Final = ("tests.mutants", "tests.samples")
"""Modules that are not imported again with a mutation: those that do it, and the settings of hypothesis."""


def load(names: Iterable[str]) -> unittest.TestSuite:
    """Load tests by name, those of packages within a package too, and import what they need."""
    loader = TestLoader()
    return unittest.TestSuite([loader.loadByName(name, recurse=True) for name in names])


def is_killed(mutation: Mutation, tests: Sequence[str]) -> bool:
    """Whether one of these tests fails with a mutation.

    The function is changed in the imported module first; a mutation that is not noticed so is imported, since
    what a module does when it is imported has happened by then.
    """
    load(tests)
    if not mutation.function.endswith(BODY) and _forked(lambda: _run_mutant(mutation, tests)) != b"passed":
        return True
    return _forked(lambda: _import_mutant(mutation, tests)) != b"passed"


def lines_of(tests: Sequence[str], rooms: Collection[str]) -> set[tuple[str, int]]:
    """The lines in these folders that tests reach; none if they fail."""
    load(tests)
    found = _forked(lambda: _traced(tests, rooms))
    return {(path, line) for path, line in json.loads(found or b"[]")}


def passes(tests: Sequence[str]) -> bool:
    """Whether tests pass as the product is."""
    load(tests)
    return _forked(lambda: b"passed" if _succeed(tests) else b"failed") == b"passed"


def _run_mutant(mutation: Mutation, tests: Sequence[str]) -> bytes:
    try:
        mutation.apply()
    except Stale:
        # It is no function of the module, but of something that was made of one.
        return b"passed"
    return b"passed" if _succeed(tests) else b"failed"


def _import_mutant(mutation: Mutation, tests: Sequence[str]) -> bytes:
    import_anew(mutation, KEPT)
    return b"passed" if _succeed(tests) else b"failed"


def _silence() -> None:
    """Log nothing more in this process: a worker of trial sends its log to the runner, over a shared pipe."""
    for observer in list(log.theLogPublisher.observers):
        log.removeObserver(observer)


def _succeed(tests: Sequence[str]) -> bool:
    _silence()
    suite = load(tests)
    result = unittest.TestResult()
    result.failfast = True
    suite.run(result)
    expected = getattr(result, "skipped", [])
    return result.wasSuccessful() and result.testsRun > len(expected)


def _traced(tests: Sequence[str], rooms: Collection[str]) -> bytes:
    folders = tuple(str(PROJECT / room) + os.sep for room in rooms)
    lines: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.startswith(folders):
            return None
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        is_good = _succeed(tests)
    finally:
        sys.settrace(None)
    if not is_good:
        return b"[]"
    relative = [(str(Path(name).relative_to(PROJECT)), line) for name, line in sorted(lines)]
    return json.dumps(relative).encode()


def _forked(work: Callable[[], bytes]) -> bytes:
    """The answer of a forked process; empty if it ended without one."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        answer = b""
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT + 5))
            signal.alarm(10 * CPU_LIMIT)
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            answer = work()
        finally:
            _write_all(writing, answer)
            os._exit(0)
    os.close(writing)
    found = b""
    while piece := os.read(reading, 1 << 16):
        found += piece
    os.close(reading)
    os.waitpid(child, 0)
    return found


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
