"""Labs, on the virtual-time kernel."""
