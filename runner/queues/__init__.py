"""How long the queues of a network are while a point runs."""
