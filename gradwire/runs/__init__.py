"""The run loop: it makes machines that carry out a scenario's points, and verdicts and reports of their results."""
