"""Requests, answers and upgraded connections of the control API, and their limits."""
