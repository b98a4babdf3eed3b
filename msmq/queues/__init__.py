"""[MS-MQDMPR]: queue manager, queues, messages and waiting readers as a pure model.
"""
