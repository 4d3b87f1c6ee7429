"""How far stored runs are from an ideal network, and why: examined once, and kept in the cache."""
