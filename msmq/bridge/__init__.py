"""The pure core of the bridge to other brokers: mappings, and what is in flight. docs/design/bridge.md."""
