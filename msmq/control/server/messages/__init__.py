"""JSON representation of messages and other objects of the control API; message properties from JSON."""
