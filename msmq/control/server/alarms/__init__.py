"""Alarms: what needs an operator, for the control API and the console alike."""
