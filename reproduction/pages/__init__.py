"""What a reproduction found, as pages for people and as data: one page per
paper, the overview over them, and the HTML report."""
