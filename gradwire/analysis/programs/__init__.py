"""What programs of the user's own report: figures read from their files or outputs, and the tables, chart and report of them."""
