"""Explains: from logs, counters and packets to iteration times, verdicts, tables, charts and reports."""
