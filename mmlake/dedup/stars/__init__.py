"""The join: stars in place of all pairs, each unit that goes tied to the one that stays for it.

The first half, who follows whom, is `mmlake.dedup.greedy`; `leaders` is the whole. Who stays: `survivors`, `elections`,
`outdone`, `shares`. What is left: `star_edges`, as rows `pair_rows`, and from the edges of all tiers `clusters`. Copies
that several units hold between them: `across`; comparisons by workers: `ahead`.
"""
