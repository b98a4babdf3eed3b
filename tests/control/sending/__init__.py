"""The control API: sends, one by one and as streams."""
