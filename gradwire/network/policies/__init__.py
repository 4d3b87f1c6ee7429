"""Ways of routing, a file each."""
