"""Training whose state or layers are divided among workers: groups of workers, and what they exchange."""
