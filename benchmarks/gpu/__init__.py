"""Programs that run on a machine with a GPU and PyTorch, without gradwire: copy a file there and run it."""
