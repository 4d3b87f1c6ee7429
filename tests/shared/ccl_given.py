"""What `gradwire ccl` is asked in tests, which change some of it."""

from __future__ import annotations

from dataclasses import replace

from reproduction.world import cells

USUAL = replace(cells.USUAL, nic="200gbit")
