"""The bytes of a frame that are not payload. Imports nothing."""

PREAMBLE_FCS_GAP_BYTES = 24
"""Bytes per Ethernet frame that a line carries and tc does not count: preamble 8, FCS 4, inter-frame gap 12 (IEEE
802.3)."""
LEAST_FRAME_BYTES = 60 + PREAMBLE_FCS_GAP_BYTES
"""Bytes that the smallest frame occupies on the line: shorter ones are padded to 60 bytes and FCS."""
ETHERNET_HEADER_BYTES = 14
IP_TCP_HEADER_BYTES = 52
"""IPv4 20, TCP 20, timestamp option 12."""
