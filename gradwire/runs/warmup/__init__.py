"""Runs that were not steady: they are repeated after a longer warm-up, whose length follows from what was measured."""
