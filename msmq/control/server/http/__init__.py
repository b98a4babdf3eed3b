"""HTTP layer of the control API: requests, responses, upgraded connections, and their limits."""
