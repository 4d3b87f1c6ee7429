"""Captured packets: reading them once, identifying their messages, and showing them in Wireshark."""
