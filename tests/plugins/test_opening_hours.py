"""C{examples/opening_hours}: an access control of a plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

import twisted.plugins
from msmq.interfaces import IAccessControl, Moment, ServerContext
from msmq.manager.applications.targets import own_queue
from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.plugins import PluginError
from msmq.security.access.guarded_access_control import GuardedAccessControl
from msmq.service.configuration import check
from msmq.service.policy_plugins import make_access_control
from msmq.testing.access_control import MemoryAccessControl
from msmq.testing.clock import ManualClock
from msmq.testing.contracts.access_control import AccessControlContract
from msmq.windows.well_known_sids import ANONYMOUS
from tests.builders import ALPHA
from tests.nodes.support import NodesTestCase
from tests.project.example_files import EXAMPLES, example

HOUR = 3600
TO_BETA = r"DIRECT=TCP:127.0.0.3\private$\orders"
REASON = "messages are accepted from 8:00 to 23:00 UTC"


def install(case: SynchronousTestCase) -> None:
    """Have the plugin found by its name, as C{pip install} does."""
    directory = EXAMPLES / "opening_hours"
    example("opening_hours", directory)
    plugins = directory / "twisted" / "plugins"
    case.patch(twisted.plugins, "__path__", [*twisted.plugins.__path__, str(plugins)])
    # Twisted leaves a cache in the directory of the plugins that it finds.
    case.addCleanup((plugins / "dropin.cache").unlink, missing_ok=True)


def opening_hours(argument: str, documented: IAccessControl, clock: Any) -> IAccessControl:
    """The access control of a server with this configuration."""
    context = ServerContext(
        identifier=ALPHA, name="ALPHA", data=Path(), clock=clock, reactor=Clock(), directory=None
    )
    found = make_access_control(f"hours:{argument}", context, documented)
    assert found is not None
    return found


class OpenTests(AccessControlContract, SynchronousTestCase):
    """While the queues are open, it decides as the other one."""

    def make(self) -> IAccessControl:
        install(self)
        self.documented = MemoryAccessControl(self.rules)
        for account in self.accounts:
            self.documented.add(account)
        return opening_hours("0-24", self.documented, ManualClock())

    def go_away(self) -> None:
        self.documented.is_connected = False


class ArgumentTests(SynchronousTestCase):
    """The hours of a configuration."""

    def setUp(self) -> None:
        install(self)

    def test_hours_of_a_day(self) -> None:
        """Those from the first to before the last, also across midnight."""
        for argument, hours in (("8-18", range(8, 18)), ("22-6", [*range(6), 22, 23]), ("0-24", range(24))):
            found = []
            for hour in range(24):
                clock = ManualClock(Moment(monotonic=0, wall=hour * HOUR))
                access: Any = opening_hours(argument, MemoryAccessControl(), clock)
                found += [hour] if access._is_open() else []
            self.assertEqual(found, list(hours), argument)

    def test_arguments_that_cannot_be_used(self) -> None:
        """The check of a configuration reports them with their line, as a start does."""
        configuration = Path(self.mktemp())
        for argument in ("", "8", "8-8", "24-6", "8-25", "8-0", "eight-18", "8-18-20"):
            error = self.assertRaises(PluginError, opening_hours, argument, MemoryAccessControl(), None)
            self.assertIn("needs two different hours, as in hours:8-18", str(error))
            configuration.write_text(f"[listen]\ncontrol = 'off'\n[security]\naccess = 'hours:{argument}'\n")
            [problem] = check(configuration)
            self.assertEqual((problem.line, problem.key), (4, "security.access"))
        configuration.write_text("[listen]\ncontrol = 'off'\n[security]\naccess = 'hours:8-18'\n")
        self.assertEqual(check(configuration), [])


class QueueManagerTests(NodesTestCase):
    """BETA, whose queues are open from 8:00 to 23:00; it is 22:13."""

    def setUp(self) -> None:
        install(self)
        super().setUp()
        self.orders = self.queue(self.beta)

    def node(self, name: str, *arguments: Any, **kwargs: Any) -> Any:
        if name == "BETA":
            hours = opening_hours("8-23", MemoryAccessControl(), self.clock)
            guarded = GuardedAccessControl(hours, self.clock)
            kwargs["options"] = {"access": AccessPolicy(guarded, ANONYMOUS)}
        return super().node(name, *arguments, **kwargs)

    def test_day(self) -> None:
        """A message is accepted until the end of the hours, and refused with the reason afterwards; what has
        arrived can still be received.
        """
        self.send(self.alpha, TO_BETA, b"in time")
        self.clock.advance(1)
        self.assertEqual(self.beta.service.inspection.queue(self.orders).messages, 1)
        why = self.run_to_end(self.beta.service.access.why(self.orders, "anonymous", "send"))
        self.assertTrue(why.granted)
        self.clock.advance(HOUR)
        self.send(self.alpha, TO_BETA, b"late")
        self.clock.advance(1)
        stored = self.successResultOf(self.beta.store.read_events(0, 1000))
        [refused] = [each.event.reason for each in stored if each.event.event == "refused"]
        self.assertIn(REASON, refused)
        why = self.run_to_end(self.beta.service.access.why(self.orders, "anonymous", "send"))
        self.assertEqual((why.granted, why.reason), (False, REASON))
        self.assertEqual(self.bodies(self.beta, self.orders), [b"in time"])

    def test_queue_without_a_descriptor(self) -> None:
        """A queue from before access control has no descriptor, and is closed at the same hours."""
        queue = own_queue(self.beta.service.model, self.orders)
        queue.definition = attrs.evolve(queue.definition, security=b"")
        self.send(self.alpha, TO_BETA, b"in time")
        self.clock.advance(HOUR)
        self.send(self.alpha, TO_BETA, b"late")
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.beta, self.orders), [b"in time"])
