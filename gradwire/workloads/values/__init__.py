"""Values that files give: quantities with units, fields with ranges, and what a value must be, in words."""
