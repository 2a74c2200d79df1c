"""What is wrong with a journal, found without running a module."""
