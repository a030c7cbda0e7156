"""What a configuration says, as frozen values: where to look, what to take, what to give."""
