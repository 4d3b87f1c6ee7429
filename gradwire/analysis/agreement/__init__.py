"""How far a run is from an ideal network, and why: a cause is named only
where a computation on the run's own data shows it."""
