"""Next hops: the session and the route of each outgoing queue."""
