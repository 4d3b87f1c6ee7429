"""Carries faults out while a plan is replayed, and notes when."""
