"""Pictures, recordings and films that decode although a place in them is damaged: how many places, and where the first
is. They were found when the track was made."""

from __future__ import annotations

from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.rule import Rule

_NUMBER, _AT_S, _AT_BYTE = "num_damages", "damaged_at_s", "damaged_at_byte"


def damage_measures(subject: Subject) -> Measures:
    """The number of damaged places; time and byte of the first, null where they are not known or there is none."""
    places = subject.track["damages"]
    first = places[0] if places else {}
    return {_NUMBER: float(len(places)), _AT_S: first.get("at_s"), _AT_BYTE: first.get("at_byte")}


DAMAGE_MEASUREMENT = Measurement(
    name="damage",
    modalities=("image", "audio", "video"),
    measures=(_NUMBER, _AT_S, _AT_BYTE),
    columns=("damages",),
    take=damage_measures,
)

DAMAGED = Rule(
    name="damaged",
    error_code=4004,
    severity="P2",  # what decodes is as it was: flagged, not quarantined
    measure=_NUMBER,
    high=1,
    places=(_AT_S, _AT_BYTE),
    what="Some of it does not decode, or does not have the checksum that its format carries; the rest is sound.",
    fix="Fetch the file again; `tracks.damages` of the item lists every place.",
)
