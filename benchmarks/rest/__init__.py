"""Measure the cost of a world whose cells are at rest."""
