"""Faults that a scenario asks for: links that fail, workers that slow down or die, switches and controllers that restart."""
