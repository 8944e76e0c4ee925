"""What is known of the platform: collected from snapshots, without a thought of how it looks."""
