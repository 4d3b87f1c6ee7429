"""One iteration over time, for trace viewers."""
