"""Blocking client of the control API, without a reactor."""
