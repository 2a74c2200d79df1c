"""What led to something, and what came of it."""
