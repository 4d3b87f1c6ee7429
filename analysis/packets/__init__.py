"""Captured packets: read once, told apart by message, and shown in Wireshark."""
