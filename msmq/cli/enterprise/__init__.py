"""Verbs about other queue managers: members, topology, ping and the search for directory servers."""
