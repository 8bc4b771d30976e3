"""Rules on how far pictures agree with words and sound: cosines that the encoders of the settings give
(`mmlake/embed/agreement.py`), null without them."""

from __future__ import annotations

from mmlake.quality.rule import Rule

PICTURE_TEXT, PICTURE_SOUND = "picture_text_cosine", "picture_sound_cosine"

MISMATCH_RULES = (
    Rule(
        name="pictures_unlike_words",
        error_code=4336,
        severity="P2",  # people talk about what is not to be seen: a reason for a smaller weight, never to leave it out
        measure=PICTURE_TEXT,
        low=0.0,  # vectors of a pair that belongs together never point apart; a bound for your encoder is higher
        what="The keyframes have less to do with the words of the film than any text that fits them.",
        fix="Compare the subtitles with the pictures; `mmlake review pictures_unlike_words` says where your encoder's "
        "bound lies.",
    ),
    Rule(
        name="sound_unlike_pictures",
        error_code=4337,
        severity="P2",  # likewise: music stands over everything
        measure=PICTURE_SOUND,
        low=-0.5,  # what sounds is among what is seen least; the profiles of unrelated ones are about 0 apart
        what="What sounds is what the keyframes show least of all.",
        fix="Compare the sound with the pictures: it may be that of another film.",
    ),
)
