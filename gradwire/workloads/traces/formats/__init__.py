"""One module per format of traces: how a file of it is recognised, and how it is read."""
