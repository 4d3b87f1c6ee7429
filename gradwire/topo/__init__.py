"""Builds the network: the fabric as frozen data, traffic control, and Mininet, which only this folder imports."""
