"""Serving a language model: requests that are prefilled, whose caches travel, and which are decoded in batches."""
