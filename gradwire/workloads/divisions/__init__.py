"""Ways to divide a large model among GPUs: which there are, what they need of memory, and how fast they can be at most."""
