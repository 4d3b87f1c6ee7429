"""What runs left: the store of points, run folders and their points by name, and the files in them, read back with one message a fault."""
