"""The machine below: builds, caches and boots the virtual-time kernel, and runs points inside it or on the machine's own kernel."""
