"""Values that others measured on real hardware, predicted and scored: `gradwire reproduce world`.

`given.csv` has the printed values. A module of `sources/` turns the set-up of a row into a cell: a scenario with
settings, or the reason why there is none. What is fitted is said there, and a source has at most two such rows.
"""
