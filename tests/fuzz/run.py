"""C{python -m tests.fuzz.run TARGET [--runs N] [--seconds S] [--work DIRECTORY]}: one target under atheris.

Inputs that covered a new branch are in the work directory; L{tests.fuzz.reduce} takes the best of
them into the corpus.
An input that breaks a promise is written to C{findings} there, once for each line that raised, and the
run goes on; one that takes too long or too much memory ends it.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import atheris
from atheris.import_hook import HookManager
from twisted.logger import globalLogBeginner

PROJECT = Path(__file__).resolve().parent.parent.parent

GUIDES = {
    "stream": ("msmq.wire.framer", "msmq.structures.packet.user_message"),
    "user_messages": ("msmq.structures", "msmq.decoding"),
    "internal_packets": ("msmq.structures.internal", "msmq.structures"),
    "datagrams": ("msmq.discovery", "msmq.session.ping", "msmq.structures.internal"),
    "sessions": ("msmq.session",),
    "captures": ("msmq.decoding",),
    "queue_managers": (
        "msmq.session",
        "msmq.net",
        "msmq.transfer",
        "msmq.queues",
        "msmq.manager.peers",
        "msmq.broker",
    ),
    "control_requests": ("msmq.control",),
    "ldap_answers": ("msmq.directory.ldap.transport.decoder", "msmq.directory.ldap.transport.protocol"),
}
"""What guides a target: modules whose names begin so; else all but those that read single numbers.

What other targets are guided by anyway costs as much as what is looked for, and tells nothing new.
"""

NUMBERS = ("msmq.wire.reader", "msmq.wire.writer", "msmq.wire.guid")

LONGEST = {
    "names": 256,
    "directory": 640,
    "descriptors": 896,
    "datagrams": 320,
    "internal_packets": 620,
    "sessions": 256,
    "queue_managers": 160,
    "control_requests": 320,
}
"""Bytes of an input, else 1024; the large ones are for the tests, which need not guess them."""

SECONDS = 5
"""An input that takes longer is a finding."""

MEGABYTES = 2048
"""So is one that takes more memory."""


def unguided(target: str) -> set[str]:
    """The modules whose branches are not counted for a target."""
    modules = {
        ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")
        for path in (PROJECT / "msmq").rglob("*.py")
    }
    guides = GUIDES.get(target)
    return set(NUMBERS) if guides is None else {name for name in modules if not name.startswith(guides)}


def reported(target: Callable[[bytes], None], findings: Path, name: str) -> Callable[[bytes], None]:
    """The target, which writes down what breaks a promise, and goes on."""
    seen: set[str] = set()

    def go_on(data: bytes) -> None:
        try:
            target(data)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            last = next(frame for frame in reversed(frames) if not frame.filename.endswith("finding.py"))
            place = f"{type(error).__name__} {last.filename}:{last.lineno}"
            if place in seen:
                return
            seen.add(place)
            digest = hashlib.sha256(place.encode()).hexdigest()[:12]
            findings.mkdir(parents=True, exist_ok=True)
            (findings / f"{name}-{digest}.bin").write_bytes(data)
            (findings / f"{name}-{digest}.txt").write_text("".join(traceback.format_exception(error)))
            print(f"finding: {place}", file=sys.stderr, flush=True)

    return go_on


def main() -> None:
    """Fuzz until all runs are done, or the time has expired."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run")
    parser.add_argument("target")
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("_fuzz"))
    options = parser.parse_args()
    # Packets have few fields that are compared with anything, and their seeds have those values.
    with HookManager({"msmq"}, unguided(options.target), True, trace_dataflow=options.target not in GUIDES):
        from tests.fuzz.corpus import inputs
        from tests.fuzz.targets import TARGETS
    if options.target not in TARGETS:
        parser.error(f"no such target: {options.target}; there are {', '.join(TARGETS)}")
    work: Path = options.work
    directory = work / options.target
    directory.mkdir(parents=True, exist_ok=True)
    findings = work / "findings"
    findings.mkdir(exist_ok=True)
    for data in inputs(options.target):
        (directory / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
    logging.disable()
    # Twisted keeps the first 65,536 events for observers to come.
    globalLogBeginner.beginLoggingTo([], discardBuffer=True, redirectStandardIO=False)
    atheris.Setup(
        [
            sys.argv[0],
            str(directory),
            f"-runs={options.runs}",
            f"-max_total_time={options.seconds}",
            f"-max_len={LONGEST.get(options.target, 1024)}",
            f"-timeout={SECONDS}",
            f"-rss_limit_mb={MEGABYTES}",
            f"-artifact_prefix={findings}/{options.target}-",
            "-reload=0",
            "-print_final_stats=1",
        ],
        reported(TARGETS[options.target], findings, options.target),
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
