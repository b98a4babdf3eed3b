"""The packets of sessions and pings."""
