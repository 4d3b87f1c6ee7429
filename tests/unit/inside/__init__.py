"""Programs of the user's own, without a kernel."""
