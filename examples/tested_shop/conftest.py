"""The fixtures of the tests."""

pytest_plugins = ["msmq.testing.pytest_fixtures"]
