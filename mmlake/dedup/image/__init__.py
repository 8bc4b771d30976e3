"""Near duplicates of pictures.

Prints of one picture: `fingerprints`, of `perceptual`, `tints` and `recoding`. Candidates: `keys` of hashes. Of two:
`matcher` asks `alignment`, which asks where they lie on each other (`places`, `windows`, `views`) and in what they may
differ (`colours`, `tones`, `marks`, `cutouts`, `detail`).
"""
