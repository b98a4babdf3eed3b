"""Tests of the bridge as a process of its own."""
