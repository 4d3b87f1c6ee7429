"""The critical path of an iteration, and what each piece of it waited for."""
