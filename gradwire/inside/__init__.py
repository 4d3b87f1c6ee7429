"""What runs in the virtual-time kernel: the network without agents, the hosts that programs enter, and who starts and
follows them."""
