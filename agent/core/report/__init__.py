"""Reports about a running agent, for status, explain and metrics. The only input is one snapshot of the agent."""
