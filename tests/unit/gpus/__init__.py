"""GPUs that are not there."""
