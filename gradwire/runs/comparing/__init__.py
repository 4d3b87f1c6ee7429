"""`gradwire compare`: a question as a scenario with everyone who can run there, and which division of a large model
is fastest."""
