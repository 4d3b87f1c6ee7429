"""Ways in which the switches of a network are joined, a file each."""
