"""The local API over HTTP and JSON that the command and other processes call."""
