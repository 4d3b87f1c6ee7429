"""Mininet as scripts import it."""
