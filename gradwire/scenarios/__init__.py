"""Scenario files: one TOML a paper's figure or table."""
