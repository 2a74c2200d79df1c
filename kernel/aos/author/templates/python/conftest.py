"""pytest reads this file, so that tests can import `flow` from any working directory."""
