"""gradwire in Python and notebooks: runs as objects with pandas tables and matplotlib axes. The names are those of
`gradwire` itself."""
