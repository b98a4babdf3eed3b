"""Tests of the directories."""
