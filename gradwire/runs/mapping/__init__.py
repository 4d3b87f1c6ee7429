"""`gradwire map`: a scenario's strategies estimated over two of its keys, and a sample of the cells measured."""
