"""How much of a port's line is used over time, from captured packets: numbers, charts, and a report."""
