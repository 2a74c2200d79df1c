"""``aos demo``: run a thousand orders, crash half way, check the result (spec/cli.md, C-50)."""
