"""Read, check, forecast and sign manifests and commands before they are sent."""
