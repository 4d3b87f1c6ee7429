"""What this machine carries on the wall clock, measured, and the scale that follows from it."""
