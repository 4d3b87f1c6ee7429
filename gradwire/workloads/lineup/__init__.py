"""Who takes part in a comparison: every strategy on a model, ways to divide a large one, or algorithms for a recorded job."""
