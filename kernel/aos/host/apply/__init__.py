"""Manifests and commands before they are sent: read, checked, forecast and signed."""
