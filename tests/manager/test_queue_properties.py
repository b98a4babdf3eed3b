"""The properties that an application gives a new queue."""

from __future__ import annotations

from typing import cast

from twisted.trial.unittest import SynchronousTestCase

from msmq.control.server.resources.queue_properties import PROPERTIES
from msmq.interfaces.manager.queue_properties import DEFAULTS, QueueProperties, with_defaults


class QueuePropertyTests(SynchronousTestCase):
    """Their names, and what they are when they are left out."""

    def test_each_has_a_default(self) -> None:
        """A property that may be given has a value when it is not."""
        self.assertEqual(set(DEFAULTS), set(QueueProperties.__annotations__))
        self.assertEqual(with_defaults({}), DEFAULTS)
        self.assertEqual(with_defaults({"quota": 7}), {**DEFAULTS, "quota": 7})

    def test_a_misspelt_property_is_named(self) -> None:
        """It is no property that is silently left out."""
        with self.assertRaises(TypeError) as caught:
            with_defaults(cast(QueueProperties, {"transactionall": True}))
        self.assertIn("transactionall", str(caught.exception))

    def test_the_control_api_takes_all(self) -> None:
        """An operator can set every property of a queue that an application can."""
        self.assertEqual(set(DEFAULTS) - set(PROPERTIES), {"security", "application_type"})
