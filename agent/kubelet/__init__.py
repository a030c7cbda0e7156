"""All communication with the kubelet. Only this package uses gRPC and protobuf."""
