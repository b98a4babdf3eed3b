"""Changes through forms of the console: what each does, who may make it, and what is refused."""

from __future__ import annotations

from urllib.parse import quote, unquote, urlencode
from uuid import UUID

from twisted.internet.protocol import Factory

from msmq.control.authentication.roles import Role
from msmq.queues.arriving.message import Delivery
from msmq.web.console.page_roles import PAGE_ROLES
from msmq.web.console.pages.queue_changes import shown_properties
from tests.builders import GAMMA
from tests.control.callers.test_roles import TOKENS
from tests.control.support import Answer
from tests.nodes.scripted import NEGATIVE, Peer, transactional
from tests.nodes.support import ADDRESSES
from tests.web.console.test_pages import ELSEWHERE, ConsoleTestCase, Elements
from tests.web.support import ORDERS

NEW = ".\\private$\\new"
DEAD = ".\\system$;deadletter"
FORM = "application/x-www-form-urlencoded"


class ChangeTestCase(ConsoleTestCase):
    """A token of each role, and a queue with three messages."""

    tokens = tuple(f"{role}'s {role} {token}" for role, token in TOKENS.items())

    def setUp(self) -> None:
        super().setUp()
        self.make_queue(label="from the shop")
        self.put(ORDERS, b"one", b"two", b"three", label="order")

    def headers(self, role: Role = Role.ADMIN) -> dict[str, str]:
        """The token of a role."""
        return {"Authorization": f"Bearer {TOKENS[role]}"}

    def post(self, page: str, *fields: tuple[str, object], role: Role = Role.ADMIN) -> Answer:
        """A form that is sent."""
        headers = {**self.headers(role), "Content-Type": FORM}
        return self.get(page, "POST", headers, urlencode(fields).encode())

    def done(self, page: str, *fields: tuple[str, object], role: Role = Role.ADMIN) -> str:
        """The text of the page that follows a form."""
        answer = self.post(page, *fields, role=role)
        self.assertEqual(answer.status, 303, answer.body.decode())
        return self.shown(str(answer.headers["Location"]), role).text

    def refused(self, page: str, status: int, text: str, *fields: tuple[str, object]) -> None:
        """A form that is refused with a text."""
        answer = self.post(page, *fields)
        self.assertEqual(answer.status, status, answer.body.decode())
        self.assertIn(text, Elements(answer.body.decode()).text)

    def hidden(self, path: str, *names: str) -> list[tuple[str, str]]:
        """The hidden fields of a page, with their values."""
        found = self.shown(path).attributes
        return [(name, found[found.index(("name", name)) + 1][1]) for name in names]

    def shown(self, path: str, role: Role = Role.ADMIN) -> Elements:
        """A page as a role sees it."""
        answer = self.get(path, headers=self.headers(role))
        self.assertEqual(answer.status, 200, answer.body.decode())
        return Elements(answer.body.decode())

    def bodies_of(self, path: str) -> list[bytes]:
        """The bodies of the messages in a queue."""
        page = self.run_now(self.alpha.service.inspection.browse(path))
        return [bytes(message.view.body) for message in page.messages]


class QueueChangeTests(ChangeTestCase):
    """Queues."""

    here = f"path={quote(ORDERS)}"

    def test_create(self) -> None:
        """A queue is created with its properties; a number may have spaces."""
        fields = (("path", NEW), ("label", "fresh"), ("quota", "1 000"), ("transactional", "true"))
        self.assertIn("The queue is created.", self.done("/queue/create", *fields))
        queue = self.alpha.service.inspection.queue(NEW)
        self.assertEqual((queue.label, queue.quota, queue.transactional), ("fresh", 1000, True))
        self.refused("/queue/create", 409, "MQ_ERROR_QUEUE_EXISTS", *fields)

    def test_create_without_room(self) -> None:
        """A quota of 0 is one; an empty field sets none."""
        for path, quota, set_quota in ((NEW, "0", 0), (NEW + "er", "", None)):
            self.done("/queue/create", ("path", path), ("quota", quota))
            self.assertEqual(self.alpha.service.inspection.queue(path).quota, set_quota)

    def test_set(self) -> None:
        """Only the properties that differ are set, and the audit log has the name of the token."""
        self.make_queue("new", label="fresh", quota=1000)
        page = f"/queue/set?path={quote(NEW)}"
        same = {"label": "fresh", "privacy": "optional", "quota": "1000", "journal_quota": ""}
        same["shown"] = shown_properties(self.alpha.service.inspection.queue(NEW))
        self.assertIn("Nothing is changed", self.done(page, *same.items()))
        changed = {**same, "quota": "", "journal": "true"}
        self.assertIn("The properties are set.", self.done(page, *changed.items()))
        queue = self.alpha.service.inspection.queue(NEW)
        self.assertEqual((queue.label, queue.quota, queue.journal), ("fresh", None, True))
        events = [each.event.reason for each in self.run_now(self.alpha.service.inspection.events())]
        [entry] = [reason for reason in events if "queue set" in reason]
        self.assertIn("admin's", entry)
        self.assertNotIn("label", entry)

    def test_set_of_a_stale_page(self) -> None:
        """What was set after the page was loaded is not undone by a form that has the former value."""
        page = self.shown(f"/queue?{self.here}")
        shown = page.attributes[page.attributes.index(("name", "shown")) + 1][1]
        self.run_now(self.alpha.service.set_queue(ORDERS, {"quota": 2000}))
        fields = ("label", "new"), ("privacy", "optional"), ("quota", ""), ("shown", shown)
        text = "the properties have changed since the page was loaded, and nothing is set"
        self.refused(f"/queue/set?{self.here}", 400, text, *fields)
        queue = self.alpha.service.inspection.queue(ORDERS)
        self.assertEqual((queue.label, queue.quota), ("from the shop", 2000))

    def test_set_keeps_hidden_characters(self) -> None:
        """A label that was not edited stays, although its field shows hidden characters escaped."""
        label = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
        self.run_now(self.alpha.service.set_queue(ORDERS, {"label": label}))
        page = self.shown(f"/queue?{self.here}")
        values = {
            name: page.attributes[page.attributes.index(("name", name)) + 1][1] for name in ("label", "shown")
        }
        self.assertIn("\\u200c", values["label"])
        fields = (*values.items(), ("privacy", "optional"), ("quota", "77"))
        self.assertIn("The properties are set.", self.done(f"/queue/set?{self.here}", *fields))
        queue = self.alpha.service.inspection.queue(ORDERS)
        self.assertEqual((queue.label, queue.quota), (label, 77))

    def test_pause_and_resume(self) -> None:
        """A paused queue offers to be resumed, another one to be paused; the other button is hidden."""

        def hidden() -> list[str]:
            found = self.shown(f"/queue?{self.here}").attributes
            before = [found[index - 1] for index, each in enumerate(found) if each == ("hidden", "")]
            return [value for name, value in before if name == "data-kind"]

        self.assertEqual(hidden(), ["flag", "flag"])
        self.assertIn("paused", self.done(f"/queue/pause?{self.here}", role=Role.OPERATOR))
        self.assertEqual(hidden(), ["unless"])
        self.assertIn("It is resumed.", self.done(f"/queue/resume?{self.here}", role=Role.OPERATOR))

    def test_purge_is_confirmed(self) -> None:
        """A purge needs the number on the page, and removes no more messages than that."""
        page = f"/queue/purge?{self.here}"
        hidden = self.hidden(f"/queue?{self.here}", "listed", "last")
        self.refused(page, 400, "2 was typed in, and the page has 3", ("messages", "2"), *hidden)
        self.put(ORDERS, b"late")
        text = "there are 4 messages now, and 3 on the page"
        self.refused(page, 400, text, ("messages", "3"), *hidden)
        self.assertEqual(len(self.bodies_of(ORDERS)), 4)
        hidden = self.hidden(f"/queue?{self.here}", "listed", "last")
        self.assertIn("4 messages were purged.", self.done(page, ("messages", "4"), *hidden))
        self.assertEqual(self.bodies_of(ORDERS), [])

    def test_purge_spares_later_messages(self) -> None:
        """Those that arrived since the page was loaded stay, as many others as have left the queue since."""
        administration = self.alpha.service.message_administration
        for path, page in (
            (ORDERS, f"/queue?{self.here}"),
            (ELSEWHERE, f"/outgoing_queue?name={quote(ELSEWHERE)}"),
        ):
            if path == ELSEWHERE:
                self.put(path, b"one", b"two", b"three")
            hidden = self.hidden(page, "listed", "last")
            found = self.run_now(self.alpha.service.inspection.browse(path)).messages
            self.run_now(administration.remove(path, [each.lookup_id for each in found[:2]]))
            self.put(path, b"new", b"newer")
            text = self.done(page.replace("?", "/purge?"), ("messages", "3"), *hidden)
            self.assertIn("1 message was purged.", text)
            self.assertEqual(self.bodies_of(path), [b"new", b"newer"])

    def test_delete_of_another_queue(self) -> None:
        """A queue that got the path of the page's queue, which was deleted, is not deleted in its place."""
        hidden = self.hidden(f"/queue?{self.here}", "listed", "identifier", "arrived")
        self.run_now(self.alpha.service.delete_queue(ORDERS))
        self.make_queue()
        self.put(ORDERS, b"of another owner")
        page = f"/queue/delete?{self.here}"
        self.refused(
            page, 400, "another one has its path: nothing is deleted", ("confirmed", ORDERS), *hidden
        )
        self.assertEqual(self.bodies_of(ORDERS), [b"of another owner"])

    def test_delete_with_exchanged_messages(self) -> None:
        """A queue is not deleted when messages have arrived, even if as many have left it."""
        hidden = self.hidden(f"/queue?{self.here}", "listed", "identifier", "arrived")
        found = self.run_now(self.alpha.service.inspection.browse(ORDERS)).messages
        remove = self.alpha.service.message_administration.remove
        self.run_now(remove(ORDERS, [each.lookup_id for each in found]))
        page, fields = f"/queue/delete?{self.here}", (("confirmed", ORDERS), *hidden)
        self.put(ORDERS, b"new")
        self.refused(
            page, 400, "messages have arrived since the page was loaded: nothing is deleted", *fields
        )
        self.assertEqual(self.bodies_of(ORDERS), [b"new"])

    def test_delete_is_confirmed(self) -> None:
        """A queue is deleted when its path was typed in, and not when messages arrived after the page."""
        page = f"/queue/delete?{self.here}"
        hidden = self.hidden(f"/queue?{self.here}", "listed", "identifier", "arrived")
        self.refused(page, 400, "the path that was typed in is not", ("confirmed", "orders"), *hidden)
        text = "3 messages now, and 0 on the page"
        self.refused(page, 400, text, ("confirmed", ORDERS), ("listed", "0"), *hidden[1:])
        path = self.alpha.service.inspection.queue(ORDERS).path
        self.assertIn("The queue is deleted.", self.done(page, ("confirmed", path.upper()), *hidden))
        self.refused(page, 404, "MQ_ERROR_QUEUE_NOT_FOUND", ("confirmed", path), *hidden)

    def test_delete_with_a_failing_store(self) -> None:
        """The queue is deleted, and the page says that the store is retried."""
        self.put(ORDERS, b"kept", delivery=Delivery.RECOVERABLE)
        fields = ("confirmed", ORDERS), *self.hidden(f"/queue?{self.here}", "listed", "identifier", "arrived")
        self.disk.is_broken = True
        text = self.done(f"/queue/delete?{self.here}", *fields)
        self.assertIn("the store fails, and is retried", text)
        self.assertNotIn(ORDERS, self.shown("/queues").text.replace("Create", ""))

    def test_replay(self) -> None:
        """Entries of the message log are sent again."""
        self.run_now(self.alpha.service.set_queue(ORDERS, {"log": True}))
        self.put(ORDERS, b"logged")
        self.make_queue("copies")
        text = self.done(f"/queue/replay?{self.here}", ("into", ".\\private$\\copies"))
        self.assertIn("1 message was sent from the log.", text)
        self.assertEqual(self.bodies_of(".\\private$\\copies"), [b"logged"])


class MessageChangeTests(ChangeTestCase):
    """Selected messages."""

    here = f"queue={quote(ORDERS)}"

    def test_remove_selected(self) -> None:
        """The selected messages are removed, the others stay; one that is gone is counted."""
        first, _, third = self.lookup_ids()
        ids = [("id", first), ("id", third), ("id", 9999)]
        text = self.done(f"/messages/remove?{self.here}&where=&body=", *ids, ("to", ""))
        self.assertIn("2 messages were removed. 1 selected were received or removed before that.", text)
        self.assertEqual(self.bodies_of(ORDERS), [b"two"])

    def test_move_and_copy(self) -> None:
        """The browser returns to the list that was searched."""
        self.make_queue("other")
        first, second, _ = self.lookup_ids()
        to = ("to", ".\\private$\\other")
        answer = self.post(f"/messages/move?{self.here}&body=o", ("id", first), to)
        self.assertIn("body=o", str(answer.headers["Location"]))
        self.assertIn("1 message was copied.", self.done(f"/messages/copy?{self.here}", ("id", second), to))
        self.assertEqual(sorted(self.bodies_of(".\\private$\\other")), [b"one", b"two"])
        self.assertEqual(self.bodies_of(ORDERS), [b"two", b"three"])

    def test_stale_selection(self) -> None:
        """A form without a selection, or whose messages are all gone, is refused in words."""
        self.refused(f"/messages/remove?{self.here}", 400, "no message is selected")
        fields = [("id", 9999)]
        self.refused(f"/messages/remove?{self.here}", 404, "no selected message is there", *fields)
        self.refused(f"/messages/move?{self.here}", 400, "the field to is empty", *fields)
        self.refused(f"/messages/move?{self.here}", 400, "whole number", ("id", "x"), ("to", "y"))


class DeadLetterChangeTests(ChangeTestCase):
    """Dead letters."""

    def setUp(self) -> None:
        super().setUp()
        self.put(ELSEWHERE, b"1", b"2", dead_letter=True, label="lost")
        self.run_now(self.alpha.service.purge_outgoing(ELSEWHERE))
        page = self.shown("/deadletters")
        [self.group] = [link for link in page.values("href") if link.startswith("/deadletters/requeue")]

    def test_group(self) -> None:
        """The preview has the messages; those that arrive after it stay."""
        preview = self.shown(self.group)
        self.assertIn("Send 2 dead letters again", preview.text)
        last = preview.attributes[preview.attributes.index(("name", "last")) + 1][1]
        self.put(ELSEWHERE, b"3", dead_letter=True)
        self.run_now(self.alpha.service.purge_outgoing(ELSEWHERE))
        text = self.done(self.group, ("last", last), ("to", ORDERS))
        self.assertIn("2 messages were sent again.", text)
        self.assertEqual(self.bodies_of(DEAD), [b"3"])
        self.assertEqual(self.bodies_of(ORDERS)[-2:], [b"1", b"2"])
        self.assertIn("Send 1 dead letter again", self.shown(self.group).text)

    def test_invalid_destination(self) -> None:
        """A message of a peer whose destination is no valid text is shown with the others, and selected."""
        peer = Peer(GAMMA, is_initiator=True)
        host = self.network.host(ADDRESSES["GAMMA"])
        host.client_endpoint(ADDRESSES["ALPHA"], 1801).connect(Factory.forProtocol(lambda: peer))
        self.clock.advance(1)
        direct = "TCP:127.0.0.2\\private$\\q"
        packet = transactional(
            b"odd", (7, 1, 0), destination=direct + "\u5151", user_flags=NEGATIVE, is_transactional=False
        )
        peer.send(packet.replace("\u5151".encode("utf-16-le"), b"\x00\xd8"))
        self.clock.advance(1)
        page = self.shown("/deadletters")
        self.assertIn(f"DIRECT={direct}\\ud800", page.text)
        [group] = [link for link in page.values("href") if "ud800" in link]
        preview = self.shown(group)
        self.assertIn("Send 1 dead letter again", preview.text)
        last = preview.attributes[preview.attributes.index(("name", "last")) + 1][1]
        self.refused(group, 400, "is not allowed in a queue name", ("last", last))

    def test_edited(self) -> None:
        """A dead letter is sent with another label and body, and keeps what was not edited."""
        [first, _] = [
            each.lookup_id for each in self.run_now(self.alpha.service.inspection.browse(DEAD)).messages
        ]
        where = f"queue={quote(DEAD)}&id={first}"
        links = [unquote(link) for link in self.shown(f"/messages?{where}").values("href")]
        self.assertIn(f"/message/resend?{unquote(where)}", links)
        self.assertIn("1", self.shown(f"/message/resend?{where}").text)
        fields = ("to", ORDERS), ("label", "lost"), ("body", "corrected\r\nbody")
        text = self.done(f"/message/resend?{where}", *fields)
        self.assertIn("1 message was sent again.", text)
        page = self.run_now(self.alpha.service.inspection.browse(ORDERS))
        last = page.messages[-1].view
        self.assertEqual((bytes(last.body), last.label), (b"corrected\nbody", "lost"))


class EditedCopyTests(ChangeTestCase):
    """A message that waits in a queue, sent again with another body."""

    def test_edited_copy(self) -> None:
        """Its copy has the edited body and the label that was not edited; the message stays where it is."""
        self.put(ORDERS, b"<order n='1'/>", label="first")
        first = self.run_now(self.alpha.service.inspection.browse(ORDERS)).messages[-1].lookup_id
        page = f"/message/resend?queue={quote(ORDERS)}&id={first}"
        shown = self.shown(f"/messages?queue={quote(ORDERS)}&id={first}")
        self.assertIn(unquote(page), [unquote(link) for link in shown.values("href")])
        self.assertIn("this one stays here", self.shown(page).text)
        other = self.make_queue("other")
        fields = ("to", other), ("label", "first"), ("body", "<order n='2'/>")
        self.assertIn("1 message was copied.", self.done(page, *fields))
        [sent] = self.run_now(self.alpha.service.inspection.browse(other)).messages
        self.assertEqual((bytes(sent.view.body), sent.view.label), (b"<order n='2'/>", "first"))
        self.assertEqual(self.bodies_of(ORDERS)[-1], b"<order n='1'/>")
        reasons = [each.event.reason for each in self.run_now(self.alpha.service.inspection.events())]
        self.assertIn(f"sent to {other} as {sent.view.identifier}, edited", reasons)

    def test_label_with_a_line_feed(self) -> None:
        """A label of two lines is kept, although its field has one."""
        self.put(ORDERS, b"x", label="two\nlines")
        last = self.run_now(self.alpha.service.inspection.browse(ORDERS)).messages[-1].lookup_id
        fields = ("label", "twolines"), ("body", "y")
        self.done(f"/message/resend?queue={quote(ORDERS)}&id={last}", *fields)
        sent = self.run_now(self.alpha.service.inspection.browse(ORDERS)).messages[-1].view
        self.assertEqual((bytes(sent.body), sent.label), (b"y", "two\nlines"))

    def test_to_its_destination(self) -> None:
        """Without another destination the copy goes where the message went."""
        self.put(ORDERS, b"once")
        last = self.run_now(self.alpha.service.inspection.browse(ORDERS)).messages[-1].lookup_id
        self.done(f"/message/resend?queue={quote(ORDERS)}&id={last}", ("body", "twice"))
        self.assertEqual(self.bodies_of(ORDERS)[-2:], [b"once", b"twice"])

    def test_received_meanwhile(self) -> None:
        """A message that was received since the form was loaded is not sent again."""
        self.put(ORDERS, b"shown")
        shown = self.run_now(self.alpha.service.inspection.browse(ORDERS)).messages[0]
        self.run_now(self.alpha.service.receive(ORDERS))
        page = f"/message/resend?queue={quote(ORDERS)}&id={shown.lookup_id}"
        before = self.bodies_of(ORDERS)
        self.refused(page, 404, "MQ_ERROR_MESSAGE_NOT_FOUND", ("body", "edited"))
        self.assertEqual(self.bodies_of(ORDERS), before)


class TransferChangeTests(ChangeTestCase):
    """Outgoing queues and transactions."""

    def test_outgoing(self) -> None:
        """Pause, resume, retry, redirect and purge."""
        self.put(ELSEWHERE, b"1", b"2")
        here = f"name={quote(ELSEWHERE)}"
        inspection = self.alpha.service.inspection
        self.assertIn("It is paused.", self.done(f"/outgoing_queue/pause?{here}"))
        self.assertEqual(list(inspection.outgoing_queue(ELSEWHERE).paused_by), ["name"])
        self.assertIn("It is resumed.", self.done(f"/outgoing_queue/resume?{here}"))
        self.assertIn("attempted now", self.done(f"/outgoing_queue/retry?{here}"))
        self.assertIn("attempted now", self.done("/outgoing/retry"))
        self.assertIn("are redirected", self.done(f"/outgoing_queue/redirect?{here}", ("to", "192.0.2.9")))
        self.assertEqual(inspection.outgoing_queue(ELSEWHERE).redirected_to, "192.0.2.9")
        self.assertIn("has ended", self.done(f"/outgoing_queue/redirect?{here}", ("to", "")))
        self.assertIsNone(inspection.outgoing_queue(ELSEWHERE).redirected_to)
        hidden = self.hidden(f"/outgoing_queue?{here}", "listed", "last")
        text = self.done(f"/outgoing_queue/purge?{here}", ("messages", "2"), *hidden)
        self.assertIn("2 messages were purged.", text)

    def test_transaction(self) -> None:
        """A transaction is aborted."""
        transaction = self.alpha.service.begin()
        self.assertIn("aborted", self.done(f"/transaction/abort?id={transaction.identifier}"))
        self.assertEqual(list(self.alpha.service.inspection.transactions()), [])


class StalePageTests(ChangeTestCase):
    """Forms of pages whose objects are gone: refused in words, and nothing else is changed."""

    def test_queue(self) -> None:
        """A queue that was deleted after its page was loaded."""
        self.run_now(self.alpha.service.delete_queue(ORDERS))
        here = f"path={quote(ORDERS)}"
        for page, fields in (
            ("/queue/pause", ()),
            ("/queue/set", (("label", "new"),)),
            ("/queue/purge", (("messages", "3"), ("listed", "3"), ("last", "9"))),
            (
                "/queue/delete",
                (("confirmed", ORDERS), ("listed", "3"), ("identifier", str(UUID(int=1))), ("arrived", "3")),
            ),
            ("/queue/replay", (("into", ORDERS),)),
        ):
            self.refused(f"{page}?{here}", 404, "MQ_ERROR_QUEUE_NOT_FOUND", *fields)
        for page in ("/messages/move", "/messages/copy"):
            selected = (("id", 1), ("to", ORDERS))
            self.refused(f"{page}?queue={quote(ORDERS)}", 404, "MQ_ERROR_QUEUE_NOT_FOUND", *selected)
        self.assertEqual(list(self.alpha.service.inspection.queues()), [])

    def test_outgoing_queue(self) -> None:
        """An outgoing queue that has ended, and a transaction."""
        name = quote("DIRECT=OS:OMEGA\\private$\\never")
        self.refused(f"/outgoing_queue/retry?name={name}", 404, "MQ_ERROR_QUEUE_NOT_FOUND")
        transaction = self.alpha.service.begin()
        self.run_now(transaction.abort())
        page = f"/transaction/abort?id={transaction.identifier}"
        self.refused(page, 409, "it has ended")

    def test_message_that_was_shown(self) -> None:
        """A dead letter that was received meanwhile is not sent, nor is a later one instead."""
        self.put(ELSEWHERE, b"shown", dead_letter=True)
        self.run_now(self.alpha.service.purge_outgoing(ELSEWHERE))
        [shown] = self.run_now(self.alpha.service.inspection.browse(DEAD)).messages
        self.run_now(self.alpha.service.receive(DEAD))
        self.put(ELSEWHERE, b"later", dead_letter=True)
        self.run_now(self.alpha.service.purge_outgoing(ELSEWHERE))
        page = f"/message/resend?queue={quote(DEAD)}&id={shown.lookup_id}"
        fields = (("label", ""), ("body", "edited"), ("to", ORDERS))
        self.refused(page, 404, "MQ_ERROR_MESSAGE_NOT_FOUND", *fields)
        self.assertEqual(self.bodies_of(DEAD), [b"later"])
        self.assertEqual(self.bodies_of(ORDERS), [b"one", b"two", b"three"])


class RoleOfPagesTests(ChangeTestCase):
    """What a role may not do is neither shown nor done."""

    def test_buttons(self) -> None:
        """A page has exactly the forms of the changes that its reader may make."""
        self.put(ELSEWHERE, b"1")
        orders, elsewhere = quote(ORDERS), quote(ELSEWHERE)
        pages = ["/queues", f"/queue?path={orders}", f"/messages?queue={orders}"]
        pages += ["/outgoing", f"/outgoing_queue?name={elsewhere}"]
        for role in (Role.READER, Role.OPERATOR, Role.ADMIN):
            found = [self.shown(page, role) for page in pages]
            actions = [*(v for page in found for k, v in page.attributes if k in ("action", "formaction"))]
            routes = {action.partition("?")[0] for action in actions}
            changes = {route for method, route in PAGE_ROLES if method == "POST" and route in routes}
            expected = {
                "/queue/pause", "/queue/purge", "/messages/move", "/messages/copy", "/messages/remove",
                "/messages/export",
                "/outgoing/retry", "/outgoing_queue/pause", "/outgoing_queue/retry", "/outgoing_queue/purge",
                "/queue/resume", "/outgoing_queue/resume",
            }  # fmt: skip
            if role is Role.ADMIN:
                expected |= {"/queue/create", "/queue/set", "/queue/delete", "/outgoing_queue/redirect"}
            self.assertEqual(changes, set() if role is Role.READER else expected, role)
            self.assertEqual("read only" in found[0].text, role is Role.READER)

    def test_refusals(self) -> None:
        """Each change is refused to a role below its own, whatever the form has."""
        for (method, route), least in PAGE_ROLES.items():
            for role in Role:
                if role < least and method == "POST":
                    answer = self.post(route, role=role)
                    self.assertEqual((route, answer.status), (route, 403))
                    self.assertIn(f"{route} needs {least}", Elements(answer.body.decode()).text)

    def test_unknown_fields(self) -> None:
        """A field that a form does not have is refused by its name; so is an outcome that does not exist."""
        here = f"path={quote(ORDERS)}"
        self.refused(f"/queue/pause?{here}", 400, "there is no field", ("colour", "red"))
        self.refused(f"/queue/set?{here}", 400, "journal is true or absent", ("journal", "maybe"))
        answer = self.get("/queues?done=You+have+won", headers=self.headers())
        self.assertEqual(answer.status, 400)
        answer = self.get("/queues?done=purged&count=%3Cb%3E", headers=self.headers())
        self.assertEqual(answer.status, 400)
