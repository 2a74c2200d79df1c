"""Tests of the benchmarks. ``benchmarks.gateway`` makes the folder of its chain a path."""

import benchmarks.gateway  # noqa: F401
