"""The notebook of the examples runs from its first cell to its chart."""

from __future__ import annotations

import asyncio
import base64
import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from msmq.pipeline.spark.session import SparkUnavailable, find_java, find_spark
from tests.pipeline.spark_settings import write_defaults
from tests.servers.prepared import prepared_python, spark_python

PROJECT = Path(__file__).resolve().parents[3]
NOTEBOOK = PROJECT / "examples" / "estate.ipynb"
DEADLINE = 400
ROUTES = [
    "ALPHA to BETA",
    "ALPHA to GAMMA",
    "BETA to ALPHA",
    "BETA to GAMMA",
    "GAMMA to ALPHA",
    "GAMMA to BETA",
]


class NotebookTests(SynchronousTestCase):
    """C{examples/estate.ipynb}."""

    timeout = DEADLINE

    def setUp(self) -> None:
        try:
            find_spark()
            find_java()
        except SparkUnavailable as error:
            raise SkipTest(str(error)) from None
        # Jupyter keeps connection files and a history.
        self.home = tempfile.TemporaryDirectory(prefix="msmq-jupyter-")
        self.addCleanup(self.home.cleanup)

    def executed(self) -> Any:
        """The notebook with the outputs of its cells."""
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        self.assertFalse(
            [cell for cell in notebook.cells if cell.get("outputs")], "it is stored without outputs"
        )
        client = NotebookClient(
            notebook, timeout=DEADLINE, kernel_name="python3", resources={"metadata": {"path": str(PROJECT)}}
        )
        home = self.home.name
        manager: Any = client.create_kernel_manager()
        # Its servers are forked with their imports done.
        python = os.fspath(prepared_python())
        manager.kernel_spec.argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        # No port, and so no other user who could connect.
        manager.transport, manager.ip = "ipc", f"{home}/kernel"
        environment = {"JUPYTER_RUNTIME_DIR": home, "IPYTHONDIR": home}
        environment["PYSPARK_PYTHON"] = os.fspath(spark_python())
        # With Spark's defaults each of its shuffles would be 200 tasks.
        write_defaults(Path(home))
        environment["SPARK_CONF_DIR"] = home
        inherited = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
        asyncio.run(client.async_execute(env={**inherited, **environment}))
        return notebook

    def test_runs(self) -> None:
        """No order is missing, each route has its latency, and the chart is a picture."""
        outputs = [
            output["data"]
            for cell in self.executed().cells
            for output in cell.get("outputs", ())
            if output["output_type"] in ("execute_result", "display_data")
        ]
        counted, bodies, fates, latency, chart = outputs
        self.assertEqual(counted["text/plain"], "{'ALPHA': 100, 'BETA': 100, 'GAMMA': 100}")
        self.assertRegex(bodies["text/plain"], r"\b100 +3675\.0\b")
        self.assertRegex(fates["text/plain"], r"delivered +300\b")
        self.assertEqual([route for route in ROUTES if route not in latency["text/plain"]], [])
        self.assertTrue(base64.b64decode(chart["image/png"]).startswith(b"\x89PNG"))
