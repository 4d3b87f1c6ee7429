"""Records what a PyTorch script computes and communicates, in the script's own Python (docs/recording.md).

`gradwire record` puts this package, and nothing else of gradwire's, on the path of that Python, which may be older than
gradwire's: so these modules use the standard library and torch alone.
"""
