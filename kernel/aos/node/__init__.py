"""The node: a world with an HTTP front, for clients and workers elsewhere (spec/node-api.md)."""
