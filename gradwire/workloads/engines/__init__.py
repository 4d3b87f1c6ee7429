"""The parts of published strategies: parameter servers, allreduces, placement, and the computing part of a worker."""
