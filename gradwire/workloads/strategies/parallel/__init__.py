"""Training whose state or layers are divided among workers: one file per published family."""
