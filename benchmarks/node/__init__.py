"""A node over HTTP: events, workers, and the process of the front."""
