"""Tests of what secures messages where they arrive and where they leave."""
