"""The use of a port's line over time, from captured packets: numbers, charts, and a report."""
