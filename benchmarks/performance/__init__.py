"""What gradwire costs, beside other tools and as traffic grows. `python -m benchmarks.performance`, or `make bench`."""
