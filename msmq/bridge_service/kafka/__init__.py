"""Kafka through librdkafka, whose blocking calls are made in threads of their own."""
