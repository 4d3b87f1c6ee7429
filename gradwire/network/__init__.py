"""The network as data, and the ways of messages through it: hosts, switches, links, queues and rates, and for each kind of
routing the lines that a message passes. topo/ and controller/ build what this says, and everybody else asks it."""
