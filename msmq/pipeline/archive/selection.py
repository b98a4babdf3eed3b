"""Which streams and queues are archived."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import cached_property
from typing import Final
from uuid import UUID

import attrs

from msmq.interfaces.archived_streams import ARCHIVED_STREAMS
from msmq.persistence.definition import QueueDefinition
from msmq.pipeline.files.format import EVENTS
from msmq.pipeline.reading.streams import Topic, logged_topics, topics_of
from msmq.pipeline.rows import EVENTS_TOPIC
from msmq.wire.guid import NULL_GUID


@attrs.frozen(slots=False)
class ArchiveSelection:
    """What is archived.

    @ivar streams: as the data source names them.
    @ivar queues: paths of queues whose logs and journals are archived, with C{*} for any characters; a path
        without a backslash may be the last part of the name alone.
    """

    streams: Sequence[str] = ARCHIVED_STREAMS
    queues: Sequence[str] = ("*",)

    def has(self, stream: str, name: str) -> bool:
        """Whether the topic with this name is selected."""
        return stream in self.streams and (stream not in ("log", "journal") or self._has(name))

    def topics(
        self, stream: str, definitions: Sequence[QueueDefinition], logs: Set[UUID] = frozenset()
    ) -> list[Topic]:
        """The selected topics of a stream.

        @param logs: queues whose message logs are read also after they were disabled, since these keep their
            entries.
        """
        if stream not in self.streams:
            return []
        if stream == EVENTS:
            return [Topic(NULL_GUID, EVENTS_TOPIC)]
        found = logged_topics(definitions, logs) if stream == "log" else topics_of(stream, definitions)
        return [topic for topic in found if self.has(stream, topic.name)]

    def _has(self, topic: str) -> bool:
        name = topic.casefold().removesuffix(";journal")
        names = (name, name.removeprefix(".\\"), name.rpartition("\\")[2])
        return any(pattern.fullmatch(each) for pattern in self._patterns for each in names)

    @cached_property
    def _patterns(self) -> list[re.Pattern[str]]:
        return [
            re.compile(".*".join(map(re.escape, text.casefold().split("*"))), re.DOTALL)
            for text in self.queues
        ]


EVERYTHING: Final = ArchiveSelection()
