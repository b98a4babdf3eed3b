"""An open Microsoft Message Queuing queue manager, and a framework for building others."""
