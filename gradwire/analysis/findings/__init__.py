"""The findings of a sweep, as data: which value of each choice is best, how times depend on conditions, and what is alike."""
