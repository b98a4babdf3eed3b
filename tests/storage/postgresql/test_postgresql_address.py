"""URLs of stores in PostgreSQL, and what must never be read off them."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.service.configuration import Overrides, check, load
from msmq.storage.factory import StorageDescriptionError, make_store
from msmq.storage.postgresql.address import parse_address
from tests.cli.support import CommandTestCase
from tests.servers.postgresql import GUARDED, PASSWORD, shared_server

SECRET = "swordfish"


class AddressTests(SynchronousTestCase):
    """Addresses after C{postgresql:}."""

    def test_whole(self) -> None:
        """User, host, port and database are libpq's, schema and wait are ours."""
        address = parse_address("//ann@db.example.com:5433/orders?schema=Alpha_1&wait=2.5&sslmode=require")
        self.assertEqual((address.schema, address.wait), ("Alpha_1", 2.5))
        self.assertEqual(
            dict(address.parameters),
            {
                "user": "ann",
                "host": "db.example.com",
                "port": "5433",
                "dbname": "orders",
                "sslmode": "require",
            },
        )
        self.assertEqual(address.text, "postgresql://ann@db.example.com:5433/orders?schema=Alpha_1")

    def test_defaults(self) -> None:
        """Without anything it is what libpq takes, and the schema C{msmq}."""
        for argument in ("", "//"):
            address = parse_address(argument)
            self.assertEqual((address.schema, address.wait, dict(address.parameters)), ("msmq", 30.0, {}))

    def test_text_of_other_locations(self) -> None:
        """Unix sockets, IPv6 addresses and several hosts are shown as URLs, too."""
        for argument, text in (
            ("///orders?host=/run/postgresql", "postgresql:///orders?host=/run/postgresql"),
            ("//%2Frun%2Fpostgresql/orders", "postgresql:///orders?host=/run/postgresql"),
            ("//[::1]:5433/orders", "postgresql://[::1]:5433/orders"),
            ("//a:1,b:2/orders", "postgresql://a,b:1,2/orders"),
        ):
            self.assertEqual(parse_address(argument).text, text)

    def test_refusals(self) -> None:
        """The error names the problem."""
        for argument, words in (
            ("ann@host/orders", "must be postgresql://"),
            ("/orders", "must be postgresql://"),
            ("//[::1/orders", "an IPv6 address in brackets"),
            ("//host:port/orders", "the port must be a number"),
            ("//host:70000/orders", "the port must be a number"),
            ("//host/orders?colour=red", "'colour' is not an option"),
            ("//host/orders?sslmode", "'sslmode' is not an option of a PostgreSQL URL, or has no value"),
            ("//host/orders?schema=a-b", "schema 'a-b' must have"),
            ("//host/orders?schema=", "schema '' must have"),
            ("//host/orders?schema=pg_msmq", "schema 'pg_msmq' must have"),
            (f"//host/orders?schema={'a' * 64}", "must have 1 to 63 letters"),
            ("//host/orders?wait=soon", "wait must be a number of seconds"),
            ("//host/orders?wait=0", "wait must be a number of seconds"),
            ("//host/orders?wait=nan", "wait must be a number of seconds"),
            ("//host/orders?wait=3601", "at most 3600"),
        ):
            with self.assertRaises(ValueError, msg=argument) as caught:
                parse_address(argument)
            self.assertIn(words, str(caught.exception))

    @given(st.text(max_size=40))
    def test_any_text(self, text: str) -> None:
        """Any text is read or refused, and in no other way."""
        try:
            parse_address(text)
        except ValueError:
            pass


class SecretTests(CommandTestCase):
    """A password in a URL stays there."""

    def test_not_in_what_is_shown(self) -> None:
        """Neither an address nor a store nor a configuration shows it."""
        description = f"postgresql://ann:{SECRET}@host/orders?sslpassword={SECRET}"
        address = parse_address(description.removeprefix("postgresql:"))
        self.assertEqual(address.parameters["password"], SECRET)
        configuration = load(None, Overrides(storage=description))
        for shown in (address, address.text, make_store(description, Path()), configuration):
            self.assertNotIn(SECRET, f"{shown} {shown!r}")
        self.assertEqual(address.without_secrets(f"is {SECRET} right?"), "is *** right?")

    def test_not_in_what_is_refused(self) -> None:
        """Not even a URL that cannot be read gives it away."""
        for description in (
            f"postgresql://ann:{SECRET}@host:port/orders",
            f"postgresql://ann:{SECRET}@[host/orders",
            f"postgresql://ann:{SECRET}%zz@host/orders",
            f"postgresql://ann:{SECRET}@host/orders?colour=red",
            f"postgresql:ann:{SECRET}@host/orders",
            f"postgresql://ann:{SECRET}/7@host/orders",
            f"postgresql://ann:1/{SECRET}@host/orders",
            f"postgresql://ann:1?{SECRET}@host/orders",
            f"postgresql://ann:1?{SECRET}-2=3",
            f"postgres://ann:{SECRET}@host/orders",
        ):
            with self.assertRaises(StorageDescriptionError) as caught:
                make_store(description, Path())
            self.assertNotIn(SECRET, str(caught.exception))
            path = Path(self.mktemp())
            path.write_text(f"[storage]\nbackend = '{description}'\n")
            ended = self.msmq("config", "check", os.fspath(path))
            self.assertEqual(ended.status, 1)
            self.assertIn(f"{path}:2: storage.backend: ", ended.output)
            self.assertNotIn(SECRET, ended.output + ended.errors)


class ProbeTests(SynchronousTestCase):
    """C{msmq config check} asks the database."""

    def problems(self, url: str) -> list[str]:
        path = Path(self.mktemp())
        path.write_text(f'# Where it is kept.\n[storage]\nbackend = "{url}"\n')
        return [str(problem).removeprefix(f"{path}:") for problem in check(path)]

    def test_unreachable_server(self) -> None:
        """A server that cannot be reached is a problem of the line that names it."""
        [problem] = self.problems(f"postgresql://ann:{SECRET}@127.0.0.1:1/orders")
        self.assertTrue(problem.startswith("3: storage.backend: cannot be used: "), problem)
        self.assertIn("postgresql://ann@127.0.0.1:1/orders: no connection: ", problem)
        self.assertIn("Connection refused", problem)
        self.assertNotIn(SECRET, problem)

    def test_sound(self) -> None:
        """A database in which the tables can be created passes the check, and is not changed."""
        server = shared_server()
        self.assertEqual(self.problems(server.url("schema=probed")), [])
        with server.connect() as connection:
            found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'probed'").fetchall()
        self.assertEqual(found, [])

    def test_of_another_program(self) -> None:
        """A schema of another program is reported before a start."""
        [problem] = self.problems(shared_server().url("schema=information_schema"))
        self.assertIn("the schema information_schema is of another program", problem)

    def test_without_rights(self) -> None:
        """A user without the right to create the tables is reported before a start."""
        url = shared_server().url("schema=probed", f"password={PASSWORD}", user=GUARDED)
        [problem] = self.problems(url)
        self.assertIn(f"the user {GUARDED} may not create the schema probed", problem)
        self.assertNotIn(PASSWORD, problem)
