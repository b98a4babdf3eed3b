"""Tests of msmq.toml."""
