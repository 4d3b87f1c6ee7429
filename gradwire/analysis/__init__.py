"""Turns logs, counters and packets into iteration times, verdicts, tables, charts and reports."""
