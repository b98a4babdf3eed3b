"""The rooms import each other as the tables say, and no modules import each other in a circle."""

from __future__ import annotations

import ast
import re

from twisted.trial.unittest import SynchronousTestCase

from tests.test_architecture.imports import circles, import_graph, import_offences
from tests.test_architecture.rooms import CORES, IMPORT_CIRCLES, ROOMS, SAME_LEVEL
from tests.test_architecture.sources import PROJECT, module_name, parsed_package, python_files


class TableTests(SynchronousTestCase):
    """The tables agree with themselves and with the directory."""

    def test_every_room_is_known(self) -> None:
        """Each package or module directly below msmq has a row that says what it may import."""
        found = {
            path.stem
            for path in (PROJECT / "msmq").iterdir()
            if (path / "__init__.py").exists() or (path.suffix == ".py" and path.stem != "__init__")
        }
        self.assertEqual(found - set(ROOMS), set())

    def test_documents_have_every_package(self) -> None:
        """The source layout of the README and the levels of the design name each package."""
        packages = {path.parent.name for path in (PROJECT / "msmq").glob("*/__init__.py")}
        layout = (PROJECT / "README.md").read_text(encoding="utf-8")
        design = (PROJECT / "docs" / "design" / "README.md").read_text(encoding="utf-8")
        self.assertEqual({name for name in packages if f"| `msmq/{name}` |" not in layout}, set())
        levels = [line for line in design.splitlines() if re.match(r"\| \d \|", line)]
        self.assertEqual({name for name in packages if f"`{name}`" not in "".join(levels)}, set())

    def test_arrows_point_down(self) -> None:
        """No row allows an import of a higher room, nor of one on the same level that is not listed."""
        for name, row in ROOMS.items():
            for other in row.may_import:
                lower = ROOMS[other].level < row.level
                self.assertTrue(lower or (name, other) in SAME_LEVEL, f"{name} imports {other}")

    def test_cores_never_meet(self) -> None:
        """Queues, sessions, discovery and routing know nothing of each other."""
        for core in CORES:
            self.assertEqual(set(ROOMS[core].may_import) & set(CORES), set())


class ImportTests(SynchronousTestCase):
    """Imports follow the tables."""

    def offences(self, module: str, source: str) -> list[str]:
        return list(import_offences(module, ast.parse(source)))

    def test_package_follows_the_tables(self) -> None:
        """No file of the package imports what its room may not."""
        offences = [
            offence
            for path in python_files("msmq")
            for offence in import_offences(
                module_name(path), parsed_package()[module_name(path)], is_package=path.name == "__init__.py"
            )
        ]
        self.assertEqual(offences, [])

    def test_core_importing_core_is_found(self) -> None:
        """A session that reaches into the queues is an offence, however it spells the import."""
        for source in (
            "import msmq.queues.model",
            "from msmq.queues import model",
            "from msmq import queues",
            "from ..queues import model",
            "def late():\n    from msmq.queues.model import Queue",
        ):
            self.assertEqual(len(self.offences("msmq.session.outbound", source)), 1, source)

    def test_room_may_import_itself(self) -> None:
        """Inside a room, and of the rooms below it, any import is allowed."""
        source = "from msmq.session.state import Session\nfrom . import timers\nimport msmq.wire.reader"
        self.assertEqual(self.offences("msmq.session.outbound", source), [])

    def test_impure_import_is_found(self) -> None:
        """A pure room that asks for the time, chance, a socket or Twisted is an offence."""
        for name in (
            "time",
            "random",
            "socket",
            "sqlite3",
            "logging",
            "twisted.internet.defer",
            "cryptography.x509",
        ):
            with self.subTest(name=name):
                self.assertNotEqual(self.offences("msmq.structures.packet.user_header", f"import {name}"), [])

    def test_pure_import_is_allowed(self) -> None:
        """A pure room may use attrs, automat and the harmless part of the standard library."""
        source = "import attrs, enum, struct, uuid\nfrom automat import TypeMachineBuilder"
        self.assertEqual(self.offences("msmq.session.machine", source), [])

    def test_provider_importing_provider_is_found(self) -> None:
        """Providers meet through interfaces only."""
        self.assertNotEqual(self.offences("msmq.storage.memory", "import msmq.net.session"), [])
        self.assertNotEqual(self.offences("msmq.net.session", "from msmq.manager import service"), [])
        self.assertEqual(self.offences("msmq.net.session", "from msmq.interfaces import IClock"), [])

    def test_import_of_the_front_door_is_found(self) -> None:
        """A module inside the package must not import the public names of the package."""
        self.assertNotEqual(self.offences("msmq.queues.model", "from msmq import Message"), [])

    def test_guarded_package_is_found(self) -> None:
        """A package that stays behind one door is an offence elsewhere, and none inside."""
        self.assertNotEqual(self.offences("msmq.pipeline.export", "import pyspark.sql"), [])
        self.assertEqual(self.offences("msmq.pipeline.spark.source", "import pyspark.sql"), [])

    def test_second_idiom_is_found(self) -> None:
        """Values are attrs classes and waiting is a coroutine, everywhere."""
        self.assertNotEqual(self.offences("msmq.net.ping", "from dataclasses import dataclass"), [])
        self.assertNotEqual(
            self.offences("msmq.net.ping", "from twisted.internet.defer import inlineCallbacks"), []
        )

    def test_reactor_at_module_level_is_found(self) -> None:
        """Importing the reactor when the module is imported is an offence; inside a function it is not."""
        source = "from twisted.internet import reactor"
        self.assertNotEqual(self.offences("msmq.net.ping", source), [])
        self.assertNotEqual(self.offences("msmq.net.ping", f"class Ping:\n    {source}"), [])
        self.assertEqual(self.offences("msmq.service.tap", f"def make():\n    {source}"), [])


class CircleTests(SynchronousTestCase):
    """No module needs, directly or not, a module that needs it."""

    def test_no_import_circles(self) -> None:
        """The modules of the package can be put in an order in which each imports earlier ones only."""
        found = circles(import_graph(parsed_package()))
        self.assertEqual([sorted(each) for each in found - IMPORT_CIRCLES], [])
        self.assertEqual(IMPORT_CIRCLES - found, set(), "what is allowed is still there")

    def test_circles_are_found(self) -> None:
        """A circle is found if an import is for types alone, in a function, or of a package's module."""
        for source in (
            "if TYPE_CHECKING:\n    from room.a import A",
            "def late():\n    import room.a",
            "from room import a",
        ):
            trees = {
                "room.a": ast.parse("from room.b import B"),
                "room.b": ast.parse("from room.c import C"),
                "room.c": ast.parse(source),
                "room.d": ast.parse("from room.a import A"),
            }
            self.assertEqual(circles(import_graph(trees)), {frozenset({"room.a", "room.b", "room.c"})})
