"""Traces of training jobs that others recorded: read in several formats, judged, and kept as a workload that plans
replay."""
