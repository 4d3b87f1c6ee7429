"""The common part of `gradwire run` and `gradwire.run`: it turns a scenario into judged points in a run folder."""
