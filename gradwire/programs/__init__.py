"""Programs of the user's own on the emulated network: `gradwire exec` and `gradwire shell`."""
