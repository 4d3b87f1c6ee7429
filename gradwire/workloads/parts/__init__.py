"""A part of a job by packets: some of its ranks with all they do, and stand-ins for those that they exchange messages with."""
