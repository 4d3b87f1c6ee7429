"""Tables, charts, rankings, and the report that they go into."""
