"""A small project of a user: right.py has no mistakes, wrong.py has one in each marked line."""
