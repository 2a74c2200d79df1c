"""Export, import, adopt and fork worlds."""
