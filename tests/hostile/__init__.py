"""Traces made to hurt: damaged, lying and absurd files of every format that `gradwire import` reads."""
