"""Points on the workers of a Dask cluster: the messages, the workers' part, and the part of the command that hands
points out."""
