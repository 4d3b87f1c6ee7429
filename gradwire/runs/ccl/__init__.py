"""`gradwire ccl`: what nccl-tests would print for a network, by estimate."""
