"""Near duplicates of texts.

Prints of one text: `fingerprints`. Of two: `verdicts` (what they share says), `alignment` (their words, laid along each
other), `templates` and `wordings` (what a whole site shares is no evidence), `contrasts` (of which one says the other's
opposite). Of all: `matcher`, and the walk over them as compiled loops (`walk` and what it names).
"""
