"""Sessions with other queue managers, which operators close."""

from __future__ import annotations

from typing import Any

from msmq.control.authentication.roles import Role
from msmq.queues.arriving.message import Delivery
from tests.web.console.test_changes import ChangeTestCase
from tests.web.support import ORDERS
from tests.web.test_metrics import BETA_ORDERS


class SessionTests(ChangeTestCase):
    """A session of ALPHA with BETA."""

    def setUp(self) -> None:
        super().setUp()
        self.make_queue(node=self.beta)
        self.put(BETA_ORDERS, b"1")
        self.clock.advance(1)

    def sessions(self) -> list[Any]:
        """The sessions of ALPHA in the API."""
        found: list[Any] = self.get("/v1/sessions", headers=self.headers(Role.READER)).json
        return found

    def audited(self) -> list[str]:
        """The changes of sessions in the event log."""
        events = self.run_now(self.alpha.service.inspection.events(0, 1000))
        return [each.event.reason for each in events if "session close" in each.event.reason]

    def test_close(self) -> None:
        """A session is closed from its page, with an audit line; a message that follows opens another one."""
        [session] = self.sessions()
        page = f"/session?id={session['identifier']}"
        self.assertIn(page.casefold(), [link.casefold() for link in self.shown("/sessions").values("href")])
        self.assertIn(session["remote_identifier"].casefold(), self.shown(page).text.casefold())
        close = f"/session/close?id={session['identifier']}"
        self.assertIn("The session is closed.", self.done(close, role=Role.OPERATOR))
        self.clock.advance(1)
        self.assertEqual(self.sessions(), [])
        [line] = self.audited()
        self.assertIn("operator's", line)
        self.assertIn(session["remote_address"], line)
        self.put(BETA_ORDERS, b"2", delivery=Delivery.RECOVERABLE)
        self.clock.advance(60)
        [other] = self.sessions()
        self.assertNotEqual(other["identifier"], session["identifier"])
        received = self.run_now(self.beta.service.inspection.browse(ORDERS))
        self.assertEqual([bytes(each.view.body) for each in received.messages], [b"1", b"2"])

    def test_messages_in_flight(self) -> None:
        """A message that was not acknowledged is sent again, once, on the session that follows."""
        self.put(BETA_ORDERS, b"2", b"3", delivery=Delivery.RECOVERABLE)
        [session] = self.sessions()
        self.done(f"/session/close?id={session['identifier']}")
        self.clock.advance(60)
        received = self.run_now(self.beta.service.inspection.browse(ORDERS))
        self.assertEqual([bytes(each.view.body) for each in received.messages], [b"1", b"2", b"3"])
        self.assertEqual(self.alpha.service.inspection.outgoing_queue(BETA_ORDERS).messages, 0)

    def test_gone(self) -> None:
        """A session that has ended since the page was loaded is refused in words, and nothing is closed."""
        [session] = self.sessions()
        close = f"/session/close?id={session['identifier']}"
        self.done(close)
        self.put(BETA_ORDERS, b"2")
        self.clock.advance(60)
        self.refused(close, 404, "has ended, or there was none")
        self.assertEqual(len(self.sessions()), 1)
        answer = self.get(f"/session?id={session['identifier']}", headers=self.headers())
        self.assertEqual(answer.status, 404)
        self.assertIn("refused with MQ_ERROR_INVALID_HANDLE", self.audited()[-1])

    def test_api(self) -> None:
        """The API closes one too; a reader sees it, and may not."""
        [session] = self.sessions()
        path = f"/v1/sessions/{session['identifier']}"
        self.assertEqual(self.get(path, headers=self.headers(Role.READER)).json, session)
        refused = self.get(f"{path}/close", "POST", self.headers(Role.READER), b"")
        self.assertEqual(refused.status, 403)
        closed = self.get(f"{path}/close", "POST", self.headers(Role.OPERATOR), b"").json
        self.assertEqual((closed["identifier"], closed["state"]), (session["identifier"], "OPEN"))
        gone = self.get(f"{path}/close", "POST", self.headers(Role.OPERATOR), b"")
        self.assertEqual((gone.status, gone.json["error"]), (404, "MQ_ERROR_INVALID_HANDLE"))
        page = f"/session?id={session['identifier']}"
        self.assertEqual(self.get(page, headers=self.headers(Role.READER)).status, 404)

    def test_roles(self) -> None:
        """A reader sees a session without a button to close it."""
        [session] = self.sessions()
        page = f"/session?id={session['identifier']}"
        self.assertFalse([each for each in self.shown(page, Role.READER).values("action") if "close" in each])
        self.assertTrue(
            [each for each in self.shown(page, Role.OPERATOR).values("action") if "close" in each]
        )
