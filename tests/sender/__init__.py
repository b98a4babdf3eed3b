"""Tests of the sender."""
