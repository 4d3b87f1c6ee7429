"""P3: what it prints, and the evidence for it."""
