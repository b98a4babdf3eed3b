"""Every input that fuzzing has kept, through its target."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.fuzz.corpus import DIRECTORY, inputs
from tests.fuzz.finding import Finding, expect
from tests.fuzz.targets import TARGETS


class CorpusTests(SynchronousTestCase):
    """Inputs that once covered a new branch, or broke a promise, still end well."""

    def test_every_target_takes_its_corpus(self) -> None:
        """Seeds and everything that was kept."""
        for name, target in TARGETS.items():
            for data in inputs(name):
                try:
                    target(data)
                except Exception as error:
                    raise AssertionError(f"{name}: {data.hex()}") from error

    def test_every_corpus_has_its_target(self) -> None:
        """No file is left behind when a target goes, and together they stay small."""
        files = list(DIRECTORY.rglob("*.txt"))
        self.assertLessEqual({path.stem for path in files}, set(TARGETS))
        self.assertLess(sum(path.stat().st_size for path in files), 1_000_000)

    def test_a_promise_that_does_not_hold_is_reported(self) -> None:
        """The targets do find something."""
        expect(True, "nothing")
        self.assertRaises(Finding, expect, False, "something")
