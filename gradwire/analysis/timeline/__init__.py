"""The timeline of one iteration, for trace viewers."""
