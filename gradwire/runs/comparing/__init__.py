"""`gradwire compare`: turns a question into a scenario with all contenders that can run there, and finds the fastest
divisions of a large model."""
