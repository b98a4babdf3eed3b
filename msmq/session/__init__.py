"""Pure cores of sessions and ping, which return effects. [MS-MQQB] 3.1."""
