"""Tests of the bridge as a service, against a real RabbitMQ."""
