"""Skeletons of migrations: `aos build --migration` (spec/authoring.md, AU-90 to AU-95)."""
