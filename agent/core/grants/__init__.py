"""What a container gets, and which devices it had better get."""
