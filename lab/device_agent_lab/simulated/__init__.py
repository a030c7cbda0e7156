"""A kubelet to try plugins against: models the device manager of the real one.

Start at device_agent_lab.simulated.kubelet. Nothing is imported here: the pytest plugin has to be cheap.
"""
