"""Mininet as users' scripts import it, in virtual time: a copy of the user's Mininet with the few changes that it
needs, and the small programs that it calls."""
