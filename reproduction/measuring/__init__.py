"""What claims read out of stored runs: packets, op logs and critical paths."""
