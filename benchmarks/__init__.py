"""Commands that measure gradwire; each says with `--help` what it prints. None of them is a test."""
