"""Operations of applications: open queues, send, receive, transactions."""
