"""`gradwire compare`: a question as a scenario with everyone who can run there."""
