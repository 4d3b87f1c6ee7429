"""Compares a run with an ideal network and explains the difference: a cause is named only where a computation on the
run's own data shows it."""
