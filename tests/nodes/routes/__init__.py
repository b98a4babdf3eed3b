"""Routes: forwarding, routing servers, connectors, public queues."""
