"""Points of scenarios of programs: made ready, run side by side, stored, judged and reported, as those of strategies are."""
