"""Registration: each resource gets a stream with the kubelet, by Register or by the plugin watcher."""
