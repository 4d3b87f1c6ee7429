"""Makes the pictures of docs/gallery.md, the recordings of terminals and the outputs of the notebooks anew."""
