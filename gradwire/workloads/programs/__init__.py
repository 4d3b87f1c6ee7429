"""Scenarios of programs: what runs where, and when, on which network, instead of a strategy's plan."""
