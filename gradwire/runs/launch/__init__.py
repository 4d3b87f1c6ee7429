"""From a scenario to judged points in a run folder: what `gradwire run` and `gradwire.run` share."""
