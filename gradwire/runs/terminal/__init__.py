"""What a terminal shows: bars while points run, and tables of everything else."""
