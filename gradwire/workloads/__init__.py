"""Decides: model profiles, and strategies that compile a model on a cluster into a plan."""
