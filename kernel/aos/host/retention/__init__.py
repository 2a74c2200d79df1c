"""What a world no longer needs, and how it leaves the store."""
