"""Why some of NetOps claims differ."""
