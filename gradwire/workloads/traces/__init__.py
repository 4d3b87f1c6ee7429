"""Traces of recorded training jobs: read in several formats, judged, and kept as a workload that plans replay."""
