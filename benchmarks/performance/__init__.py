"""What gradwire costs, compared with other tools and as traffic grows. `python -m benchmarks.performance`, or `make
bench`."""
