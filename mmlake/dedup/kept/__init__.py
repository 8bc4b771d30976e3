"""What is new alone: a join that goes on from the one before.

`join` is the way for any tier, `repair` what it goes through again, `comparisons` what it need not ask again; `parts`
the way for texts, whose verdicts depend on the whole set. `store` keeps all of it in files of the lake.
"""
