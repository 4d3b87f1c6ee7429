"""Readers of files that describe a network, one for each form; gradwire/scenario/definitions/network_files.py lists them."""
