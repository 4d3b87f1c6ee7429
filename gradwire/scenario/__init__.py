"""Scenarios: what their files may say, how they are read and resolved to points, and what is said of what is wrong in them."""
