"""Tests of the record log."""
