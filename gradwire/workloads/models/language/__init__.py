"""Decoders from their shapes, and the published ones."""
