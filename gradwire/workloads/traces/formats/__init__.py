"""One file per format of traces, and how a file's format is told."""
