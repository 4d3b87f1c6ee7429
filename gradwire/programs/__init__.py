"""Users' programs on the emulated network: `gradwire exec` and `gradwire shell`."""
