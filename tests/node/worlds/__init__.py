"""Many worlds behind one address."""
