"""What a container says of its streams and times (`container`, `frame_times`); streams without one (`bare_streams`)."""
