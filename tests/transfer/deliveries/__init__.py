"""Records of deliveries."""
