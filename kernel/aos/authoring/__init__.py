"""What authors of workflows use beside the SDKs: new projects, their build, a world to try them in.

The street of a build: aos.toml -> project -> compiler -> module -> definitions -> checks -> files.
"""
