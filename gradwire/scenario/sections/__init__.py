"""The tables of a scenario file, one module for each subject; `gradwire.scenario.schema` assembles them."""
