"""Wildcards in names of queues: C{*} for any characters, C{?} for one."""

from __future__ import annotations

from fnmatch import fnmatchcase


def is_pattern(text: str) -> bool:
    """Whether a name has wildcards."""
    return "*" in text or "?" in text


def matches(name: str, pattern: str) -> bool:
    """Whether the name of a queue matches a pattern, without case.

    A pattern without a backslash may match only the last part of a name: C{ord*} matches
    C{.\\private$\\orders}.

    @param name: a path or a format name.
    """
    whole, wanted = name.casefold(), pattern.casefold().replace("[", "[[]")
    if "\\" not in wanted and fnmatchcase(whole.rpartition("\\")[2], wanted):
        return True
    return fnmatchcase(whole, wanted)
