"""Tests of the fault-injecting double."""
