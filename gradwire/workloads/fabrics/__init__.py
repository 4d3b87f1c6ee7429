"""What a scenario says of its network."""
