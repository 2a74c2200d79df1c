"""Causes and consequences of one event, cell or intent."""
