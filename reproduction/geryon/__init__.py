"""Geryon: its printed values, how each is measured, and why some differ."""
