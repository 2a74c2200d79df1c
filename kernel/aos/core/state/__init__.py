"""The state of a world at one record, and how the next record changes it."""
