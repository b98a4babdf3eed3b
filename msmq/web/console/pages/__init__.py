"""The pages of the console, by their subject."""
