"""Replays imported workloads: their collectives become messages by the algorithm that the user chose."""
