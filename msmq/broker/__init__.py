"""The Broker class: a coroutine of an application gets the messages of queues."""
