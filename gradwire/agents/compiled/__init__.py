"""The agent in C, which hands its system calls to the virtual-time kernel in lists.

It does what the agent in Python does.
"""
