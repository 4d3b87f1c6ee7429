"""Maps of the fastest strategies: a grid of settings, its winners, ties and borders, as a chart and as a page."""
