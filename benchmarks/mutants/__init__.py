"""How much of the source the unit tests hold in place: small changes of it, one at a time, each of which a test should
notice."""
