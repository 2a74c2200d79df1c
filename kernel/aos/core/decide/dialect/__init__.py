"""The ABIs that a module may be written for, where they differ."""
