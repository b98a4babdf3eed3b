"""The internal packets of sessions, acknowledgements for an order queue, and the ping."""
