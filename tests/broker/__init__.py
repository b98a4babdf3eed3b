"""Tests of brokers."""
