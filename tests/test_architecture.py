"""Who may import whom, and the other rules of the house that a machine can hold.

The tables come first; a new room of the package is a new row of L{ROOMS}.
Each check is also fed an offending snippet, so that it cannot pass because it looks at nothing.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import attrs
from twisted.trial.unittest import SynchronousTestCase

from tests.wiring import Vocabulary

PROJECT = Path(__file__).resolve().parent.parent

FOUNDATION = ("errors", "line_limit", "moment", "quoting", "token_bucket", "settings")
VALUES = (*FOUNDATION, "wire", "structures", "windows", "persistence")
MACHINES = (*VALUES, "machines")
BASICS = ("errors", "moment", "quoting", "wire", "structures")
CORES = ("queues", "session", "transfer", "membership", "discovery", "routing")
BELOW_INTERFACES = (*VALUES, *CORES)
BELOW_PROVIDERS = (*BELOW_INTERFACES, "interfaces")
PROVIDERS = ("storage", "directory", "security", "net")


@attrs.frozen
class Room:
    """One package (or module) directly below C{msmq}.

    @ivar level: its height; imports only ever lead down, or stay inside the room.
    @ivar may_import: the other rooms that it may import.
    @ivar pure: it may import, from outside, only what L{PURE_OUTSIDE} and L{IMPURE_STANDARD} leave it.
    """

    level: int
    may_import: tuple[str, ...]
    pure: bool = False


ROOMS = {
    "errors": Room(0, (), pure=True),
    "durable": Room(0, ()),
    "machines": Room(0, (), pure=True),
    "line_limit": Room(0, ("moment", "token_bucket"), pure=True),
    "moment": Room(0, (), pure=True),
    "quoting": Room(0, (), pure=True),
    "version": Room(0, ()),
    "settings": Room(0, (), pure=True),
    "token_bucket": Room(0, ("moment",), pure=True),
    "wire": Room(0, ("errors", "moment", "quoting"), pure=True),
    "structures": Room(1, (*FOUNDATION, "wire"), pure=True),
    "windows": Room(1, (*FOUNDATION, "wire", "structures"), pure=True),
    "persistence": Room(1, (*FOUNDATION, "wire", "structures"), pure=True),
    "toml": Room(1, (*FOUNDATION, "wire")),
    # The cores never import each other: they share values and are joined by manager.
    "queues": Room(2, MACHINES, pure=True),
    "session": Room(2, MACHINES, pure=True),
    "transfer": Room(2, VALUES, pure=True),
    "membership": Room(2, VALUES, pure=True),
    "discovery": Room(2, BASICS, pure=True),
    "routing": Room(2, BASICS, pure=True),
    "deadline_timer": Room(3, (*FOUNDATION, "interfaces")),
    "decoding": Room(3, (*BELOW_INTERFACES, "interfaces"), pure=True),
    "interfaces": Room(3, BELOW_INTERFACES),
    # Providers meet each other, and whoever uses them, through interfaces.
    "storage": Room(4, (*BELOW_PROVIDERS, "durable")),
    "directory": Room(4, (*BELOW_PROVIDERS, "durable", "toml")),
    "security": Room(4, (*BELOW_PROVIDERS, "durable", "toml")),
    "net": Room(4, (*BELOW_PROVIDERS, "deadline_timer")),
    "manager": Room(5, (*BELOW_PROVIDERS, "deadline_timer", "decoding", "version")),
    # These compose what lies below them.
    "control": Room(6, (*BELOW_PROVIDERS, "decoding", "manager", "version")),
    "service": Room(
        6,
        (*BELOW_PROVIDERS, *PROVIDERS, "decoding", "manager", "control", "web", "durable", "toml", "version"),
    ),
    "web": Room(6, (*BELOW_PROVIDERS, "manager", "control", "version")),
    "pipeline": Room(
        6, (*BELOW_PROVIDERS, "decoding", "directory", "storage", "control", "durable", "version")
    ),
    "cli": Room(
        6, (*BELOW_PROVIDERS, "decoding", "directory", "net", "control", "service", "pipeline", "version")
    ),
    # The doors: what users import, and what their tests import.
    "msmq": Room(7, (*BELOW_PROVIDERS, *PROVIDERS, "decoding", "manager", "service", "version")),
    "testing": Room(7, (*BELOW_PROVIDERS, *PROVIDERS, "decoding", "manager", "control", "service", "msmq")),
}
"""Every room by its name; C{msmq} is C{msmq/__init__.py} itself."""

SAME_LEVEL = {
    ("structures", "wire"),
    ("wire", "errors"),
    ("wire", "moment"),
    ("wire", "quoting"),
    ("token_bucket", "moment"),
    ("line_limit", "moment"),
    ("line_limit", "token_bucket"),
    ("windows", "structures"),
    ("persistence", "structures"),
    ("deadline_timer", "interfaces"),
    ("decoding", "interfaces"),
    ("service", "control"),
    ("service", "web"),
    ("web", "control"),
    ("pipeline", "control"),
    ("cli", "control"),
    ("cli", "service"),
    ("cli", "pipeline"),
    ("testing", "msmq"),
}
"""The few pairs of one level in which the first imports the second, and never the other way."""

PURE_OUTSIDE = {
    **{room: ("attrs", "automat") for room, row in ROOMS.items() if row.pure},
    # What decodes bodies stands behind an interface, since others may add to it.
    "decoding": ("attrs", "dpkt", "zope"),
}
"""What a pure room may import beside the standard library."""

IMPURE_STANDARD = frozenset(
    "asyncio concurrent glob http logging multiprocessing os pathlib queue random sched secrets"
    " select selectors shutil signal socket socketserver sqlite3 ssl subprocess tempfile threading"
    " time urllib".split()
)
"""What a pure room may not import from the standard library: clocks, chance, files, sockets, threads."""

ONLY_IN = {
    "pyspark": ("msmq.pipeline.spark",),
    "matplotlib": ("msmq.pipeline.reports",),
    "dpkt": ("msmq.decoding",),
    "sqlite3": ("msmq.storage",),
    "psycopg": ("msmq.storage",),
    "ldaptor": ("msmq.directory",),
    "gssapi": ("msmq.directory.ldap.transport.kerberos",),
    "cryptography": ("msmq.security",),
    "OpenSSL": ("msmq.security",),
    "Crypto": ("msmq.security",),
    "klein": ("msmq.control",),
    "click": ("msmq.cli",),
    "prometheus_client": ("msmq.web",),
    "rich": ("msmq.cli",),
}
"""The packages from outside that stay behind one door, and that door."""

FORBIDDEN_EVERYWHERE = ("dataclasses", "twisted.internet.defer.inlineCallbacks", "hypothesis", "tests")
"""What nothing in C{msmq} imports: attrs is the one idiom for values, coroutines the one for waiting."""

SLOTS_OF_OTHERS = {
    # Expat takes its handlers only so.
    ("msmq.decoding.bodies.xml_text", "parser.StartElementHandler"),
    ("msmq.decoding.bodies.xml_text", "parser.EndElementHandler"),
    ("msmq.decoding.bodies.xml_text", "parser.CharacterDataHandler"),
    ("msmq.decoding.bodies.xml_text", "parser.StartDoctypeDeclHandler"),
    # A queue and a text, whose names other classes have for collaborators.
    ("msmq.queues.reading.descriptors", "descriptor.opened"),
    ("msmq.transfer.incoming_streams", "stream.connection"),
}
"""The only assignments to attributes of other objects that look like a collaborator."""

SHARED_NAMES: frozenset[str] = frozenset()
"""Names of public classes that may stand in more than one file: none."""

LINE_LIMIT = 800
FORBIDDEN_NAMES = ("utils", "util")


IMPORT_CIRCLES: frozenset[frozenset[str]] = frozenset()
"""Modules that may import each other in a circle, types included: none."""


@attrs.frozen
class Import:
    """One import statement: the dotted name that it needs, its line, and whether it runs on import."""

    name: str
    line: int
    at_module_level: bool


def imports_of(module: str, source: str, *, is_package: bool = False) -> list[Import]:
    """Every import in C{source}, with relative names made absolute."""
    found: list[Import] = []

    def visit(node: ast.AST, at_module_level: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, node.lineno, at_module_level) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                package = parts[: len(parts) - node.level + is_package]
                base = ".".join([*package, base] if base else package)
            found.extend(Import(f"{base}.{alias.name}", node.lineno, at_module_level) for alias in node.names)
        inner = at_module_level and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, inner)

    visit(ast.parse(source), True)
    return found


def room_of(name: str) -> str:
    """The room that a dotted name below C{msmq} lies in; C{msmq} for the package's own names."""
    parts = [*name.split("."), ""]
    return parts[1] if parts[1] in ROOMS else "msmq"


def is_within(name: str, package: str) -> bool:
    """Whether C{name} is C{package} or something inside it."""
    return name == package or name.startswith(package + ".")


def import_offences(module: str, source: str, *, is_package: bool = False) -> Iterator[str]:
    """What C{source}, as the module of that dotted name, imports against the tables."""
    room = room_of(module)
    row = ROOMS[room]
    for needed in imports_of(module, source, is_package=is_package):
        top = needed.name.split(".")[0]
        where = f"{module}:{needed.line} imports {needed.name}"
        if top == "msmq":
            other = room_of(needed.name)
            if other != room and other not in row.may_import:
                yield f"{where}: {room} may not import {other}"
        elif row.pure:
            if top in sys.stdlib_module_names:
                if top in IMPURE_STANDARD:
                    yield f"{where}: {room} is pure"
            elif top not in PURE_OUTSIDE[room]:
                yield f"{where}: {room} is pure"
        doors = ONLY_IN.get(top, ())
        if doors and not any(is_within(module, door) for door in doors):
            yield f"{where}: only {' and '.join(doors)} may"
        if any(is_within(needed.name, name) for name in FORBIDDEN_EVERYWHERE):
            yield f"{where}: nothing in msmq does"
        if is_within(needed.name, "twisted.internet.reactor") and needed.at_module_level:
            yield f"{where}: importing it chooses the reactor; take it as an argument"


def ignore_offences(source: str) -> Iterator[str]:
    """The C{type: ignore} comments that do not say which error they mean."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and re.search(r"#\s*type:\s*ignore(?!\[)", token.string):
            yield f"line {token.start[0]}: {token.string}"


def path_offences(path: Path) -> Iterator[str]:
    """What is wrong with the place or the name of a file, given from the project's directory."""
    if path.name == "__init__.py" and path.parts[0] == "twisted":
        yield f"{path}: hides Twisted itself"
    for part in (*path.parts[:-1], path.stem):
        if part in FORBIDDEN_NAMES:
            yield f"{path}: a helper lives with its only user or in wire, not in {part}"


def python_files(*directories: str) -> list[Path]:
    """Every Python file of the project below these directories, in a stable order."""
    return sorted(path for directory in directories for path in (PROJECT / directory).rglob("*.py"))


def module_name(path: Path) -> str:
    """The dotted name by which a file of the package is imported."""
    parts = path.relative_to(PROJECT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


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
        return list(import_offences(module, source))

    def test_package_follows_the_tables(self) -> None:
        """No file of the package imports what its room may not."""
        offences = [
            offence
            for path in python_files("msmq")
            for offence in import_offences(
                module_name(path), path.read_text(encoding="utf-8"), is_package=path.name == "__init__.py"
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
        """What lies behind the front door does not come in through it."""
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


def import_graph(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Which of the modules each module imports, in functions and for types alone included."""
    graph: dict[str, set[str]] = {}
    for module, tree in trees.items():
        needed = graph[module] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    name = f"{node.module}.{alias.name}"
                    needed.add(name if name in trees else node.module)
            elif isinstance(node, ast.Import):
                needed |= {alias.name for alias in node.names}
        needed &= trees.keys() - {module}
    return graph


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The strongly connected parts of a graph that have more than one node (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            place = stack.index(node)
            if len(stack) - place > 1:
                found.add(frozenset(stack[place:]))
            del stack[place:]

    for node in graph:
        if node not in index:
            visit(node)
    return found


@cache
def parsed_package() -> dict[str, ast.Module]:
    """The modules of the package by their names."""
    return {module_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in python_files("msmq")}


@cache
def vocabulary() -> Vocabulary:
    """What the package says about its attributes."""
    return Vocabulary.of(parsed_package().values())


class CircleTests(SynchronousTestCase):
    """No module needs, by whatever way, a module that needs it."""

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


class WiringTests(SynchronousTestCase):
    """Collaborators arrive in constructors, so that leaving one out is a type error."""

    def offences(self, source: str) -> list[str]:
        """What is wrong with a module, given what the package says."""
        return [str(each) for each in vocabulary().offences(ast.parse(source))]

    def test_nothing_is_assigned_afterwards(self) -> None:
        """No object is given a collaborator after its construction, and no slot has a default."""
        found = {
            (module, offence.target): f"{module} {offence}"
            for module, tree in parsed_package().items()
            for offence in vocabulary().offences(tree)
        }
        unexpected = [text for key, text in found.items() if key not in SLOTS_OF_OTHERS]
        self.assertEqual(unexpected, [])
        self.assertEqual(SLOTS_OF_OTHERS - found.keys(), set(), "what is allowed is still there")

    def test_late_collaborators_are_found(self) -> None:
        """A lambda, a function, a method, C{self}, a new part and a slot are each found."""
        for statement in (
            "arrivals.admits = lambda address: True",
            "arrivals.admits = admit",
            "performer.on_failure = self.failed",
            "self.parts.ways.listener = self",
            "self.parts.ways._listener = other",
            "one.broker = two",
            "descriptors.public = PublicNames(access, run)",
            "link.is_working = partial(work, 1)",
            "setattr(outbox, 'secure', lambda view: view)",
        ):
            source = (
                "def admit(address): ...\n"
                f"class A:\n    def failed(self): ...\n    def wire(self):\n        {statement}"
            )
            self.assertEqual(len(self.offences(source)), 1, statement)

    def test_permissive_slot_is_found(self) -> None:
        """A public attribute for a callable that begins with an answer of its own is found."""
        slot = "self.admits: Callable[[str], bool] = lambda _: True"
        source = f"class A:\n    def __init__(self):\n        {slot}"
        self.assertEqual(len(self.offences(source)), 1)

    def test_values_are_no_collaborators(self) -> None:
        """Data of others may be set, and an object may wire itself."""
        source = (
            "class A:\n    def __init__(self, router):\n        self.router = router\n"
            "    def f(self, position, queue):\n        position.state = STATE\n        queue.users += 1\n"
            "        position.view = None\n        self.f2 = lambda: 1"
        )
        self.assertEqual(self.offences(source), [])


class RetryTests(SynchronousTestCase):
    """One way to repeat a commit that has to succeed."""

    def test_commits_are_retried_in_one_place(self) -> None:
        """Only L{Performer.retry} waits and stores again; the other loops that wait read a packet."""
        loops: list[str] = []
        for path in sorted((PROJECT / "msmq" / "manager").rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                called = {
                    call.func.attr
                    for call in ast.walk(node)
                    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
                }
                if isinstance(node, ast.While) and "pause" in called and "load" not in called:
                    loops.append(path.name)
        self.assertEqual(loops, ["performer.py"])


class NameTests(SynchronousTestCase):
    """A name of a public class means one thing in the whole package."""

    def duplicates(self, trees: dict[str, ast.Module]) -> dict[str, list[str]]:
        """The modules of each name that several modules define."""
        modules: dict[str, list[str]] = {}
        for module, tree in trees.items():
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    modules.setdefault(node.name, []).append(module)
        return {name: found for name, found in modules.items() if len(found) > 1}

    def test_public_classes_have_names_of_their_own(self) -> None:
        """No public class has the name of another one, except those of the allow-list."""
        duplicates = self.duplicates(parsed_package())
        new = {name: modules for name, modules in duplicates.items() if name not in SHARED_NAMES}
        self.assertEqual(new, {})
        self.assertEqual(SHARED_NAMES - duplicates.keys(), set(), "these are unique by now; unlist them")

    def test_second_class_of_a_name_is_found(self) -> None:
        """Two modules with a class of one name are found; private classes and nested ones are not."""
        one, other = (
            ast.parse("class Page: ...\nclass _Row: ...\nclass A:\n    class Inner: ..."),
            ast.parse("class Page: ...\nclass _Row: ...\nclass B:\n    class Inner: ..."),
        )
        self.assertEqual(self.duplicates({"one": one, "other": other}), {"Page": ["one", "other"]})


class FileTests(SynchronousTestCase):
    """The files are where they belong, short enough, and plainly named."""

    def test_no_file_is_too_long(self) -> None:
        """A file is cut before it reaches the limit."""
        offences = {
            str(path.relative_to(PROJECT)): lines
            for path in python_files("msmq", "tests", "examples", "bench", "twisted")
            if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LINE_LIMIT
        }
        self.assertEqual(offences, {})

    def test_paths_are_sound(self) -> None:
        """Nothing shadows Twisted, and there is no room for odds and ends."""
        files = python_files("msmq", "tests", "examples", "bench", "twisted")
        offences = [offence for path in files for offence in path_offences(path.relative_to(PROJECT))]
        self.assertEqual(offences, [])

    def test_unsound_path_is_found(self) -> None:
        """A package marker beside the plugin, and a package of helpers, are offences."""
        for path in (
            "twisted/__init__.py",
            "twisted/plugins/__init__.py",
            "msmq/utils/text.py",
            "msmq/wire/utils.py",
        ):
            self.assertEqual(len(list(path_offences(Path(path)))), 1, path)
        self.assertEqual(list(path_offences(Path("twisted/plugins/msmq_plugin.py"))), [])

    def test_every_test_is_found(self) -> None:
        """A directory of tests is a package, or trial passes over it in silence."""
        directories = {path.parent for path in python_files("tests")}
        offences = [
            str(directory.relative_to(PROJECT))
            for directory in directories
            if not (directory / "__init__.py").exists()
        ]
        self.assertEqual(sorted(offences), [])

    def test_ignored_type_errors_are_named(self) -> None:
        """A comment that silences the type checker says which error it silences."""
        offences = [
            f"{path.relative_to(PROJECT)} {offence}"
            for path in python_files("msmq", "tests", "examples", "bench")
            for offence in ignore_offences(path.read_text(encoding="utf-8"))
        ]
        self.assertEqual(offences, [])

    def test_unnamed_ignore_is_found(self) -> None:
        """The bare comment is an offence, the one with a code and the mere text are not."""
        self.assertEqual(len(list(ignore_offences("x = 1  # type: ignore\n"))), 1)
        self.assertEqual(list(ignore_offences("x = 1  # type: ignore[misc]\ny = '# type: ignore'\n")), [])
