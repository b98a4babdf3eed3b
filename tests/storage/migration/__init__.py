"""Tests of migrations between stores."""
