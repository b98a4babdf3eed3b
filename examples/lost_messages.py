"""Lists the lost messages of several queue managers, from the table of a Spark job.

usage: lost_messages.py NAME=LOCATION ...

It prints the identifier and the destination of each, one a line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from msmq.pipeline.spark import make_session
from msmq.pipeline.spark.inputs import JobInput, parse_input, read_erased_identifiers, read_estate
from msmq.pipeline.spark.jobs.loss import fates


def main(arguments: Sequence[str]) -> int:
    """Print the lost messages; the exit status is 1 if there are any."""
    streams = ("log", "journal", "queue", "source_journal", "dead_letter", "events")
    inputs = [parse_input(text) for text in arguments]
    spark = make_session()
    estate = read_estate(spark, inputs, JobInput(streams))
    erased = read_erased_identifiers(spark, inputs)
    lost = fates(estate.messages, estate.events, erased).where("fate = 'lost'").orderBy("sent", "id")
    for row in lost.toLocalIterator():
        print(row["id"], row["destination"])
    return 0 if lost.isEmpty() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
