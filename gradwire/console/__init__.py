"""The terminal: tables, texts of others without control characters, and how a run is getting on."""
