"""The control API, from both sides."""
