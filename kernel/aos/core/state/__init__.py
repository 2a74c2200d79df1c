"""What a world is at one point of its journal, and how one record changes it."""
