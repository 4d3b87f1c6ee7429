"""Where points' machines run: on this machine's cores, or on the workers of a Dask cluster."""
