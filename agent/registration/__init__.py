"""A resource's way to a live stream, and back to it: by Register, or by the plugin watcher."""
