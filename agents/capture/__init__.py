"""Takes in every packet of a port and writes it to a file, in a process of its own."""
