"""What a run tells on the terminal."""
