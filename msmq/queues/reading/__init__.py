"""Open queues, cursors and waiting reads. [MS-MQDMPR] 3.1.1.10, 3.1.1.16, 3.2."""
