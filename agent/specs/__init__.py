"""CDI specs that the agent writes."""
