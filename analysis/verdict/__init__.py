"""Whether a run's numbers may be believed: every check, and the verdict that they make."""
