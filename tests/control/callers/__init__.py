"""The control API: who calls, what it may do, how many connections it has."""
