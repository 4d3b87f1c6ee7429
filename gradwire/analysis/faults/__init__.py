"""What faults did to a run: work that took longer, and iterations before, during and after them."""
