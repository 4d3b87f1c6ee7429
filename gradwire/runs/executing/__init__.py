"""Executors for points' machines: on this machine's cores, or on the workers of a Dask cluster."""
