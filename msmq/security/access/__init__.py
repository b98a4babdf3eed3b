"""Who may do what: tokens of users and their groups, the rules that an operator writes, and the decisions."""
