"""[MS-MQQB]: sessions and ping as pure cores that answer with effects."""
