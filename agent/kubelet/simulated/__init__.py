"""A kubelet to try plugins against: models the device manager of the real one.

Start at agent.kubelet.simulated.kubelet. Nothing is imported here: the pytest plugin has to be cheap.
"""
