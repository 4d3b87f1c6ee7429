"""The command line of `gradwire shell`, and what it answers from the fabric alone."""
