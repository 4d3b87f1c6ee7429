"""Where an iteration's time went: its critical path, and what each piece of it waited for."""
