"""Scenario files: what they may say, how they are read, and what is said of what is wrong in them."""
