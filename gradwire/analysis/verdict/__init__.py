"""The checks that decide whether a run's numbers can be trusted, and the verdict that follows from them."""
