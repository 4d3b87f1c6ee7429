"""The course of an iteration: its timeline for trace viewers, its critical path, and what each piece of that waited
for."""
