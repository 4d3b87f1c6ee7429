"""Points on the workers of a Dask cluster: what travels, what a worker does, and the side that hands points out."""
