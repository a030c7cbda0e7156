"""Everything that speaks to the kubelet; the only place that knows gRPC and protobuf."""
