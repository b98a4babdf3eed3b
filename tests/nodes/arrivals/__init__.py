"""Messages that come from peers: accepted, refused, duplicates, their attributes."""
