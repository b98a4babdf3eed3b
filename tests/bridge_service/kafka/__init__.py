"""Routes to and from Kafka, on the mock cluster of librdkafka: tests/servers/kafka.py."""
