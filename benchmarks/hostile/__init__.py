"""Inputs made to hurt, by the hundred thousand."""
