"""The papers' claims as data, the evidence for each, and what "holds" means: everything that `gradwire reproduce` judges with."""
