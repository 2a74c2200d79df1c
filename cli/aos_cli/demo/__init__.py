"""``aos demo``: a thousand orders, a crash half way, every check there is (spec/cli.md, C-50)."""
