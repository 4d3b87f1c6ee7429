"""Stored runs: the files of one run, run folders and their points by name, and the store of points."""
