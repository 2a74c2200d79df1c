"""``aos gateway demo``: works and scores on a chain where all goes wrong (spec/cli.md, C-126)."""
