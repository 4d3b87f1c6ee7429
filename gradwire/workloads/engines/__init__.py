"""What published strategies are made of: parameter servers, allreduces, placement, and the computing part of a
worker."""
