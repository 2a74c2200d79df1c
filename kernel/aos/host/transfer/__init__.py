"""Worlds into files, into other folders and into forks of themselves."""
