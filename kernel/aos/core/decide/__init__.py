"""(State, Input) -> the record that answers it, or the rule that it breaks."""
