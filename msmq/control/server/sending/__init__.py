"""Sending streams of records: from a request body, and on an upgraded connection."""
