"""Where points run: builds, caches and boots the virtual-time kernel, and runs jobs in it or on the machine's own
kernel."""
