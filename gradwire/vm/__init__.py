"""Machines that points run on: builds, caches and boots the virtual-time kernel, and runs jobs in it or on the host's
own kernel."""
