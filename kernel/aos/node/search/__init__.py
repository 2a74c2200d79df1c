"""An index of the states of cells, which answers conditions (spec/search.md, SE-20 to SE-26)."""
