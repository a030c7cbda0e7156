"""The tracker: read the host, read the kernel log, evaluate the checks and publish the device lists."""
