"""[MS-MQQB] 3.1.5.8.3 and 3.1.7.1.4 to 5: what secures messages, where they arrive and where they leave."""
