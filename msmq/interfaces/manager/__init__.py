"""Interfaces of a queue manager for applications and operators, and the values that they return."""
