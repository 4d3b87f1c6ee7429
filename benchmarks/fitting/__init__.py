"""Constants that are fitted, and how much results depend on those that are assumed."""
