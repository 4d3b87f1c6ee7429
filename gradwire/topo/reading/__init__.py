"""Reads what ports, hosts and switches count, and how much waits in their queues."""
