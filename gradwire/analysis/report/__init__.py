"""Tables, charts, rankings, and the reports that they go into."""
