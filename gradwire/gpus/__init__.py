"""GPUs that hosts do not have: stand-ins for the runtime that a collective library calls, so that the library itself runs,
unmodified, on an emulated network."""
