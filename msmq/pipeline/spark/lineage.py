"""OpenLineage events of a run of a job: what it read, what it wrote, how it ended.

The package openlineage-python is optional: the extra C{msmq[lineage]}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import attrs

from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.opening import is_remote, parts_of
from msmq.pipeline.spark.inputs import Input
from msmq.pipeline.spark.running.job import JobOutcome
from msmq.version import __version__

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient

NAMESPACE: Final = "msmq"
"""The namespace of the jobs."""
_PRODUCER: Final = f"pkg:pypi/msmq@{__version__}"


@attrs.define
class LineageRun:
    """Reports one run of a job.

    @ivar destination: C{http://...} or C{https://...} of a server of OpenLineage, or the path of a file to
        which each event is appended as a line of JSON.
    @ivar streams: the streams of a store that the job reads.
    """

    destination: str
    job: str
    inputs: Sequence[Input]
    streams: Sequence[str]
    output: Path
    _run: str = attrs.field(factory=lambda: str(uuid4()), init=False)
    _client: OpenLineageClient = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._client = _client(self.destination)

    def started(self) -> None:
        """Report the start, with the inputs."""
        self._emit("START", [])

    def completed(self, outcome: JobOutcome) -> None:
        """Report the end, with the tables and their columns."""
        self._emit("COMPLETE", self._outputs(outcome))

    def failed(self, reason: str) -> None:
        """Report a failure."""
        from openlineage.client.facet_v2 import error_message_run

        facet = error_message_run.ErrorMessageRunFacet(message=reason, programmingLanguage="python")
        self._emit("FAIL", [], {"errorMessage": facet})

    def aborted(self) -> None:
        """Report that the run was interrupted."""
        self._emit("ABORT", [])

    def _emit(self, state: str, outputs: Sequence[Any], facets: Mapping[str, Any] | None = None) -> None:
        from openlineage.client.event_v2 import InputDataset, Job, Run, RunEvent, RunState
        from openlineage.client.facet_v2 import job_type_job, processing_engine_run
        from pyspark import __version__ as spark_version

        engine = processing_engine_run.ProcessingEngineRunFacet(
            version=spark_version, name="spark", openlineageAdapterVersion=__version__
        )
        kind = job_type_job.JobTypeJobFacet(processingType="BATCH", integration="MSMQ", jobType="JOB")
        event = RunEvent(
            eventTime=datetime.now(UTC).isoformat(),
            producer=_PRODUCER,
            run=Run(runId=self._run, facets={"processing_engine": engine, **(facets or {})}),
            job=Job(namespace=NAMESPACE, name=f"msmq.pipeline.{self.job}", facets={"jobType": kind}),
            eventType=RunState[state],
            inputs=[
                InputDataset(namespace=namespace, name=name)
                for one in self.inputs
                for namespace, name in _datasets(one, self.streams)
            ],
            outputs=list(outputs),
        )
        try:
            self._client.emit(event)
        except Exception as error:
            # Of whatever library the transport uses; a job that was done is not done in vain.
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise ReadingError(f"--lineage {self.destination} does not accept events: {first}") from None

    def _outputs(self, outcome: JobOutcome) -> list[Any]:
        from openlineage.client.event_v2 import OutputDataset
        from openlineage.client.facet_v2 import schema_dataset

        found = []
        for name, table in outcome.tables.items():
            fields = [
                schema_dataset.SchemaDatasetFacetFields(name=field.name, type=field.dataType.simpleString())
                for field in table.schema
            ]
            facets: dict[str, Any] = {"schema": schema_dataset.SchemaDatasetFacet(fields=fields)}
            path = str((self.output / name).absolute())
            found.append(OutputDataset(namespace="file", name=path, facets=facets))
        return found


def _datasets(one: Input, streams: Sequence[str]) -> list[tuple[str, str]]:
    """The namespaces and names of the data of an input, as OpenLineage names files and databases.

    A store behind a control endpoint is C{msmq://HOST:PORT}.
    """
    if is_remote(one.location):
        _, address, *port = parts_of(one.shown)
        host = address.replace("\\:", ":")
        namespace = f"msmq://{':'.join([f'[{host}]' if ':' in host else host, *port])}"
        return [(namespace, stream) for stream in streams] or [(namespace, "msmq")]
    if one.path is None:
        address = one.shown.partition("://")[2].partition("?")[0].rpartition("@")[2]
        host, _, database = address.partition("/")
        namespace, name = f"postgres://{host if ':' in host else f'{host}:5432'}", database or "msmq"
        return [(namespace, f"{name}.{stream}") for stream in streams] or [(namespace, name)]
    path = str(one.path.absolute())
    if one.is_capture or one.is_parquet or not streams:
        return [("file", path)]
    return [("file", f"{path}/{stream}") for stream in streams]


def _client(destination: str) -> OpenLineageClient:
    try:
        from openlineage.client import OpenLineageClient
        from openlineage.client.transport.file import FileConfig, FileTransport
        from openlineage.client.transport.http import HttpConfig, HttpTransport
    except ImportError:
        raise ReadingError("--lineage needs openlineage-python: pip install 'msmq[lineage]'") from None
    if destination.startswith(("http://", "https://")):
        return OpenLineageClient(transport=HttpTransport(HttpConfig(url=destination)))
    path = Path(destination)
    if not path.parent.is_dir():
        raise ReadingError(f"--lineage {destination}: there is no directory {path.parent}")
    config = FileConfig(log_file_path=str(path.absolute()), append=True)
    return OpenLineageClient(transport=FileTransport(config))
