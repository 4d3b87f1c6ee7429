"""Builds the fabric: its description as frozen data, traffic control, and Mininet, which nothing else imports."""
