"""[MS-MQQB] 3.1.1.3 the caches of what secures messages, and what is chosen to secure them."""
