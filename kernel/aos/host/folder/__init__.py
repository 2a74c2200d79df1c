"""A world's folder: its files, keys and secrets, and the state that its journal defines."""
