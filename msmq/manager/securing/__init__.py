"""Authentication, encryption and access control of messages. [MS-MQQB] 3.1.5.8.3, 3.1.7.1.4 and 3.1.7.1.5."""
