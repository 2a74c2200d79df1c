"""Manifests: read from JSON, checked whole, made into the one document that the core runs on."""
