"""Collaborators are constructor arguments, and a commit is retried by one mechanism."""

from __future__ import annotations

import ast

from twisted.trial.unittest import SynchronousTestCase

from tests.test_architecture.sources import parsed_package, vocabulary
from tests.wiring import nodes_of

SLOTS_OF_OTHERS = {
    # Expat takes its handlers only so.
    ("msmq.decoding.bodies.xml_text", "parser.StartElementHandler"),
    ("msmq.decoding.bodies.xml_text", "parser.EndElementHandler"),
    ("msmq.decoding.bodies.xml_text", "parser.CharacterDataHandler"),
    ("msmq.decoding.bodies.xml_text", "parser.StartDoctypeDeclHandler"),
    # http.client takes the class of its responses only so.
    ("msmq.web.console.member_explanations", "connection.response_class"),
    # Twisted's reactors schedule by the wall clock otherwise.
    ("msmq.service.process.steady_timers", "reactor.seconds"),
    # A queue and a text, whose names other classes have for collaborators.
    ("msmq.queues.reading.descriptors", "descriptor.opened"),
    ("msmq.transfer.incoming_streams", "stream.connection"),
}
"""The only assignments to attributes of other objects that look like a collaborator."""


class WiringTests(SynchronousTestCase):
    """Collaborators arrive in constructors, so that leaving one out is a type error."""

    def offences(self, source: str) -> list[str]:
        """The violations in a module, given the vocabulary of the package."""
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
            "self.parts.route_table.listener = self",
            "self.parts.route_table._listener = other",
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
    """One mechanism to repeat a commit that has to succeed."""

    def test_commits_are_retried_by_one_function(self) -> None:
        """Only L{Performer.retry} waits and stores again; the other loops that wait read a packet, or give
        the reactor a turn.
        """
        loops: list[str] = []
        for module, tree in parsed_package().items():
            if not module.startswith("msmq.manager."):
                continue
            for node in nodes_of(tree):
                if not isinstance(node, ast.While):
                    continue
                called = {
                    call.func.attr
                    for call in ast.walk(node)
                    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
                    if [ast.unparse(argument) for argument in call.args] != ["0"]
                }
                if "pause" in called and "load" not in called:
                    loops.append(module)
        self.assertEqual(loops, ["msmq.manager.performer"])
