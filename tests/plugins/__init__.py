"""Plugins: selection, reports of unusable ones, and the contract of each kind."""
