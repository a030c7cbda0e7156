"""What is said of an agent that runs: decided from one moment of it, and from nothing else."""
