"""Real programs on emulated networks, beside what the line allows and beside gradwire's plans: `make test-programs`, an hour."""
