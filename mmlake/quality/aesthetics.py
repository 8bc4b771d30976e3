"""The rule on how much people would like a picture: a score that a head of the settings gives
(`mmlake/embed/aesthetics.py`), null without it."""

from __future__ import annotations

from mmlake.quality.rule import Rule

UNAESTHETIC = Rule(
    name="unaesthetic",
    error_code=4005,
    severity="P2",  # a matter of taste and of purpose: charts and documents score low, and are what some models need
    measure="aesthetic_score",
    low=4.5,  # where the smallest subset of LAION-Aesthetics V2 begins
    what="People who voted on pictures liked few that resemble this one, as far as the head of your settings has "
    "learned it.",
    fix="Leave it at its smaller weight, or set the bound of your data: `mmlake review unaesthetic` draws the set for "
    "it.",
)
