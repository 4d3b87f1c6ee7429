"""Host agents: interpret a plan over real sockets, and log what happened."""
