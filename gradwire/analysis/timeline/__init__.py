"""What happened when in an iteration: its timeline for trace viewers, its
critical path, and what each piece of that waited for."""
