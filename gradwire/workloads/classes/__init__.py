"""Plans of classes of ranks: of jobs with thousands of ranks, one rank of each class is compiled (docs/thousands.md)."""
