"""Code that runs inside the machine: the network's construction and replay of plans, the network without agents, the
hosts that programs enter, and who starts and follows them."""
