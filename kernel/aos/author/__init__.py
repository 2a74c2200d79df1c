"""Tools for authors of workflows: create a project, build it, try it in a scratch world.

Stages of a build: aos.toml -> project -> compiler -> module -> definitions -> checks -> files.
"""
