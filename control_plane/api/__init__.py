"""The operators' and routers' gRPC service: the fleet as messages, behind the operator key."""
