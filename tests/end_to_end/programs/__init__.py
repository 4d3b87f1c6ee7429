"""Programs of the user's own, on the virtual-time kernel."""
