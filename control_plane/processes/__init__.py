"""What runs in each process of the control plane, from its first line to its last."""
