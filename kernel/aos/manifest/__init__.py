"""Manifests: read JSON, check it as a whole, and build the one document that the core runs on."""
