"""The session core of [MS-MQQB]."""
