"""What is watched at the network's ports while a point or programs run: how long queues are, and packets."""
