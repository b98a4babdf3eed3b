"""Routes to and from brokers of AMQP 1.0, against RabbitMQ with its plugin."""
