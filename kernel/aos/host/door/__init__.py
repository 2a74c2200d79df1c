"""The way into a world: its socket, or its lock where no process runs it."""
