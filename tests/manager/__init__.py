"""Tests of L{msmq.manager}: one queue manager as its applications see it, on a store that fails on demand."""
