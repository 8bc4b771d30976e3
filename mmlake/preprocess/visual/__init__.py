"""What frames show, from one decode pass (`film_reader`) over small planes of grey and colour (`planes`).

Shots: `shots`, `gradual` for fades and dissolves by `camera_motion`, behind the rows of `shot_detectors`; keyframes:
`keyframes` by `keyframe_features`, `gops`. Traces of damage: `picture_faults`, `texture_faults`, `odd_frames`. Loops
that numba compiles are `*_kernels`.
"""
