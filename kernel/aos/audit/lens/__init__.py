"""How recorded bytes are found, decoded and put into words."""
