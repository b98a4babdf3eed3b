"""Access control: tokens of users and groups, operator rules, decisions."""
