"""One Spark session for all tests of a process, since it takes longer to start than most of them to run."""

from __future__ import annotations

import atexit
import os
from functools import cache
from typing import TYPE_CHECKING, Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from msmq.pipeline.spark import SparkUnavailable, make_session
from msmq.pipeline.spark.session import find_spark
from tests.pipeline.spark_settings import SETTINGS
from tests.servers.prepared import spark_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@cache
def shared_session() -> SparkSession:
    """The session; local, with two cores.

    @raise SkipTest: there is no Spark, or no Java.
    """
    try:
        find_spark()
        os.environ.setdefault("PYSPARK_PYTHON", os.fspath(spark_python()))
        session = make_session("msmq tests", master="local[2]", settings=SETTINGS)
    except SparkUnavailable as error:
        raise SkipTest(str(error)) from None
    session.sparkContext.setLogLevel("OFF")
    _look_up_once(session.sparkContext)
    atexit.register(session.stop)
    return session


class _LookedUpOnce:
    """A class of Java for py4j, of whose members each is requested once."""

    def __init__(self, of_java: Any) -> None:
        self._of_java = of_java

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of_java, name)
        setattr(self, name, found)
        return found


def _look_up_once(context: Any) -> None:
    """Have pyspark find the classes that it asks for whenever it makes a column.

    Java looks for a short name in each package that pyspark has imported, in all of the nearly 300 archives.
    """
    jvm = context._jvm
    for name in ("functions", "org.apache.spark.sql.functions", "PythonUtils"):
        vars(jvm)[name] = _LookedUpOnce(getattr(jvm, name))


def jobs_so_far() -> int:
    """How many jobs Spark has started in the shared session."""
    context: Any = shared_session().sparkContext
    return int(context._jsc.sc().dagScheduler().numTotalJobs())


def cached_tables() -> int:
    """How many tables are cached in the shared session, also those that were not computed yet."""
    session: Any = shared_session()
    return int(session._jsparkSession.sharedState().cacheManager().numCachedEntries())


class SparkTestCase(SynchronousTestCase):
    """Tests with the shared session.

    @ivar spark: it.
    """

    def setUp(self) -> None:
        self.spark = shared_session()

    def rows(self, frame: Any) -> list[dict[str, Any]]:
        """The rows of a data frame."""
        return [row.asDict(recursive=True) for row in frame.collect()]
