"""The bridge to other brokers as a service: routes and their connections. docs/design/bridge.md."""
