"""The run loop: from a scenario's points to machines that carry them out, and from what they left to verdicts and
reports."""
