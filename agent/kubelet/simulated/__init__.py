"""A kubelet to try plugins against: models the device manager of the real one."""
