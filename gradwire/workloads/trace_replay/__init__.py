"""From an imported workload to a plan: collectives become messages by the algorithm that the user chose."""
