"""Tests of standby servers: two processes over one schema of PostgreSQL."""
