"""Code that runs inside the machine: it builds the network, replays plans on it, starts and follows users' programs on its
hosts, carries out faults, and reports to the command outside."""
