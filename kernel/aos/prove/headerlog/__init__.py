"""The header log: a tree over the headers of all frames that tools of others can check."""
