"""The compiled agent on this machine, without the virtual-time kernel."""
