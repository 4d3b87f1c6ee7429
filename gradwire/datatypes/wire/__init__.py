"""The header of messages, of which compiled agents have a copy."""
