"""RabbitMQ (AMQP 0-9-1) through pika, on Twisted."""
