"""Labs, without a kernel."""
