"""What finite buffers, marks and congestion control did in a run."""
