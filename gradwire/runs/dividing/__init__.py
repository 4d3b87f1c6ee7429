"""The search for the fastest ways to divide a large model among thousands of GPUs (`gradwire compare --gpus`)."""
