"""What files of runs may say. Each may come from anybody, so that nothing in one is taken for granted, whether it has a hash or not."""
