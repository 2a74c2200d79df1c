"""What it costs to keep a world whose cells are at rest."""
