"""The control API over HTTP and JSON. docs/control.md."""
