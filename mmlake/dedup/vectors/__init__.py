"""Semantic duplicates: units whose vectors lie within the bound of their encoder.

`tier` is the whole; `proposals` come from an index (`index_choice`, `scann`, `gpu`), `matcher` verifies them, `witness`
says what keeps a pair apart although its vectors are close.
"""
