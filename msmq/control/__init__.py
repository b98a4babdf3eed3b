"""Control API: the administrative and messaging interface over HTTP and JSON. docs/control.md."""
