"""What a container says of its streams and times: `container`, `frame_times`; streams that have none: `bare_streams`."""
