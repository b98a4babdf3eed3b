"""[MS-MQQB]: pure cores of sessions and ping, which return effects."""
