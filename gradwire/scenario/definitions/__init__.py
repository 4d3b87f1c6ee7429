"""Models, devices and strategies in users' plain files: the keys of a file, and its conversion to the objects that
gradwire works with."""
