"""TicTac: what it prints, and the evidence for it."""
