"""What stands around the jobs: their options, what they read, and what they tell people."""
