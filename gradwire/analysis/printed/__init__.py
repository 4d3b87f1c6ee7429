"""Values that papers print, beside measured points: those that gradwire brings with it, and when a measured value agrees."""
