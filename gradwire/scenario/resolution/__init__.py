"""From a point of a scenario to what its names stand for: the strategy, the job, the fabric, the faults, and the compiled plans."""
