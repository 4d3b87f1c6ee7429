"""How claims are judged: printed values, evidence, tolerances and scores, the same for all papers."""
