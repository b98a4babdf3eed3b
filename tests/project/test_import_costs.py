"""What an import of the package loads, and what it does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.pipeline.stores import estate, write_log, write_sqlite
from tests.project.test_public_names import MSMQ


class ImportCostTests(SynchronousTestCase):
    """Coming in costs no more than what is used."""

    def loaded_by(self, statement: str) -> set[str]:
        """The modules that a new interpreter has loaded after one statement."""
        program = f"import sys\n{statement}\nprint(*sys.modules)"
        return set(subprocess.check_output([sys.executable, "-c", program], text=True).split())

    def test_package_alone_loads_no_framework(self) -> None:
        """C{import msmq} loads neither Twisted nor the server."""
        loaded = self.loaded_by("import msmq")
        self.assertIn("msmq", loaded)
        mine = {name for name in loaded if name.startswith(("twisted", "msmq."))}
        self.assertEqual(mine, {"msmq.lazy_imports"})

    def test_names_choose_no_reactor(self) -> None:
        """A program that imports the names still chooses its reactor; only Server brings one, with Klein."""
        names = ", ".join(name for name in MSMQ if name != "Server")
        loaded = self.loaded_by(f"from msmq import {names}")
        self.assertIn("msmq.net.session", loaded)
        self.assertFalse("twisted.internet.reactor" in loaded)

    def test_reader_of_stores_loads_no_queue_model(self) -> None:
        """A Spark worker starts often: it loads interfaces of storage, but no decoder and no session."""
        loaded = self.loaded_by("import msmq.pipeline.reading.stores, msmq.pipeline.spark.source")
        self.assertIn("msmq.interfaces.storage", loaded)
        unused = ("msmq.control", "msmq.decoding.bodies", "msmq.membership", "msmq.session", "twisted.plugin")
        self.assertEqual({name for name in loaded if name.startswith(unused)}, set())

    def test_reader_of_a_store_loads_no_writer(self) -> None:
        """What a Spark worker opens loads the format of that kind of store, and nothing that writes one."""
        for kind, name, others in (
            ("log", "LogStoreReader", ("msmq.storage.sqlite", "sqlite3")),
            ("sqlite", "SqliteStoreReader", ("msmq.storage.log",)),
        ):
            data = Path(self.mktemp()).absolute()
            {"log": write_log, "sqlite": write_sqlite}[kind](data, estate())
            loaded = self.loaded_by(
                "from msmq.storage.readers import open_reader\n"
                f"assert type(open_reader({str(data)!r})).__name__ == {name!r}"
            )
            unused = (
                *("msmq.interfaces.plugins", "msmq.membership", "msmq.routing", "twisted.plugin", *others),
                *(f"msmq.storage.{kind}.{module}" for module in ("store", "factory", "writer", "scrubber")),
            )
            self.assertEqual({name for name in loaded if name.startswith(unused)}, set(), kind)

    def test_plugin_loads_no_server(self) -> None:
        """The file that every C{twistd} imports names the server and does not load it."""
        loaded = self.loaded_by("import twisted.plugins.msmq_plugin")
        self.assertEqual({name for name in loaded if name.split(".")[0] == "msmq"}, set())
