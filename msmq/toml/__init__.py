"""Reading TOML files for people: every problem with the line on which it stands."""
