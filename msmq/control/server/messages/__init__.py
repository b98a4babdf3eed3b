"""Messages, and whatever else the control API shows, as JSON; and the properties of a message from JSON."""
