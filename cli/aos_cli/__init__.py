"""The ``aos`` command: it parses the command line, calls the kernel and prints (spec/cli.md)."""
