"""The commands ``aos gateway …``: works, scores and epochs that reconcile with a chain."""
