"""Programs that people run between machines, unmodified, on emulated hosts: what they take, next to what the wire allows."""
