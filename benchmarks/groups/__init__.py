"""The cost of dividing a keyed workload over the shards of a group."""
