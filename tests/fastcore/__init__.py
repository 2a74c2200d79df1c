"""The second kernel agrees with the reference, byte for byte and word for word."""
