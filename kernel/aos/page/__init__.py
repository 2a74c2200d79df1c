"""The page: a read-only web console over worlds and bundles (spec/page.md)."""
