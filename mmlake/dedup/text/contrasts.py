"""Words of which a text says one and not another: left or right, Monday or Tuesday, increases or decreases; and words
that deny, which one text says and the other does not.

A sentence encoder puts "adds a row above" and "adds a row below" at .95 and more, nearer than most paraphrases: it
knows what a sentence is about, and not which of two opposites it says. Who retells a sentence keeps such a word, or
leaves it out; nobody says another one of its kind in its place.
English only; in other languages nothing is found, and nothing is lost.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mmlake.dedup.text.fingerprints import prints, unpacked
from mmlake.dedup.text.wordings import Wording

# distinct words that one text has and the other has not: in texts that differ in more, two words of one kind may well
# be a chance. On MSRpar none of 152 paraphrases is kept apart with 8, and 2 with 12
_MOST_OTHERS = 8

# the same, of texts of which one denies: in more words a retelling may deny as well, or add something. On MSRpar none
# of 158 paraphrases is kept apart with 3, and 2 with 8
_MOST_WITH_DENIAL = 3
_DENIALS: Final = """
not no never none nobody nothing nowhere neither nor cannot cant wont dont doesnt didnt isnt arent wasnt werent hasnt
havent hadnt wouldnt shouldnt couldnt mustnt neednt
"""

# Kinds of words, each in its forms, any two of which exclude each other ("removes" and "deletes" do not, so each stands
# with "adds" alone); not "bought" and "sold", "won" and "lost", "sent" and "received": a retelling may take the other
# side.
_KINDS: Final = """
left right | lefthand righthand | leftmost rightmost | leftward rightward | leftwards rightwards | top bottom
upper lower | above below | up down | upward downward | upwards downwards | over under | higher lower
highest lowest | high low | topmost bottommost | raise lower | raises lowers | raised lowered | horizontal vertical
horizontally vertically | portrait landscape | front back | front rear | forward backward | forwards backwards
row column | rows columns | width height depth | inside outside | inner outer | internal external | inward outward
indoor outdoor | indoors outdoors | input output | inputs outputs | incoming outgoing | near far | nearest farthest
ascending descending | north south east west | northern southern eastern western
northeast northwest southeast southwest | before after | previous next | first last
first second third fourth fifth sixth seventh eighth ninth tenth | earlier later | earliest latest | begin end
begins ends | beginning end | beginning ending | start end | start stop | starts ends | starts stops
starting ending | starting stopping | started ended | started stopped | stop continue | stops continues
stopped continued | opening closing | open close | open closed | opens closes
opened closed | old new | older newer | older younger | oldest newest | oldest youngest | past future
today yesterday tomorrow | monday tuesday wednesday thursday friday saturday sunday
january february march april may june july august september october november december | spring summer autumn winter
morning afternoon evening | day night | daily weekly monthly yearly hourly
second minute hour day week month year decade century
seconds minutes hours days weeks months years decades centuries
zero one two three four five six seven eight nine ten eleven twelve | once twice | single double triple
increase decrease | increases decreases | increased decreased | increasing decreasing | increment decrement
increments decrements | rise fall | rises falls | rose fell | rising falling | gain loss | gains losses
gained lost | more less | more fewer | most least | greater less | greater smaller | larger smaller
largest smallest | bigger smaller | long short | longer shorter | longest shortest | maximum minimum | max min
maximal minimal | majority minority | even odd | positive negative | plus minus | numerator denominator
add subtract | addition subtraction | multiply divide | multiplication division | prefix suffix
preceding following | preceding succeeding | ancestor descendant | parent child | parents children
superscript subscript | uppercase lowercase | singular plural | absolute relative | signed unsigned | enable disable
enables disables | enabled disabled | enabling disabling | activate deactivate | activates deactivates
activated deactivated | lock unlock | locks unlocks | locked unlocked | show hide | shows hides | shown hidden
showing hiding | visible invisible | visible hidden | add remove | add delete | adds removes | adds deletes
added removed | added deleted | adding removing | adding deleting | insert remove | insert delete | inserts removes
inserts deletes | inserted removed | inserted deleted | inserting removing | inserting deleting | create delete
create destroy | creates deletes | creates destroys | created deleted | created destroyed | import export
imports exports | imported exported | importing exporting | load save | loads saves | loaded saved | loading saving
read write | reads writes | reading writing | upload download | uploads downloads | uploaded downloaded | push pull
pushes pulls | pop push | encode decode | encodes decodes | encoded decoded | encoder decoder | encrypt decrypt
encrypts decrypts | encrypted decrypted | compress decompress | compressed decompressed | serialize deserialize
mount unmount | install uninstall | installs uninstalls | connect disconnect | connects disconnects
connected disconnected | attach detach | attaches detaches | attached detached | expand collapse | expands collapses
expanded collapsed | accept reject | accept refuse | accepts rejects | accepts refuses | accepted rejected
accepted refused | allow deny | allow forbid | allows denies | allows forbids | allowed denied | allowed forbidden
include exclude | includes excludes | included excluded | including excluding | with without | success failure
succeeds fails | succeeded failed | true false | yes no | pass fail | passes fails | passed failed
automatic manual | automatically manually | public private protected | local remote global | static dynamic
synchronous asynchronous | serial parallel | valid invalid | equal unequal | symmetric asymmetric | online offline
client server | source destination | source target | master slave | primary secondary tertiary | profit loss
profits losses | guilty innocent | supply demand | man woman boy girl | men women boys girls | male female
males females | he she | his her | father mother | son daughter | brother sister | husband wife | uncle aunt
king queen | actor actress | mr mrs | black white red orange yellow green blue purple pink brown grey
black white red orange yellow green blue purple pink brown gray | hot cold | warm cool | wet dry | dark bright
dark light | empty full | fast slow | faster slower | thick thin | wide narrow | wider narrower | heavy light
hard soft | deep shallow | rich poor | dead alive | war peace | young old | strong weak | stronger weaker
sitting standing walking running lying
"""


class Contrasts:
    """The kinds of words, by what prints keep of a word."""

    def __init__(self) -> None:
        kinds = [kind.split() for line in _KINDS.strip().splitlines() for kind in line.split("|")]
        words = np.concatenate([unpacked(one.words) for one in prints(" ".join(kind) for kind in kinds)])
        kind_of = np.repeat(np.arange(len(kinds)), [len(kind) for kind in kinds])
        order = np.argsort(words, kind="stable")
        self._words, self._kind_of = words[order], kind_of[order]
        self._denials = unpacked(next(prints([_DENIALS])).words)

    def are_apart(self, one: Wording, other: Wording) -> bool:
        """Whether one text says a word of a kind, the other another one in its place, or one of them denies what the
        other says, and little else differs. Both at once say the same: "closed", and "not open"."""
        mine, theirs = (
            side.words[~np.isin(side.words, others.words, assume_unique=True)]
            for side, others in ((one, other), (other, one))
        )
        if max(len(mine), len(theirs)) > _MOST_OTHERS:
            return False
        return self._are_opposites(one, other, mine, theirs) != self._is_denied(one, other, mine, theirs)

    def _are_opposites(self, one: Wording, other: Wording, mine: np.ndarray, theirs: np.ndarray) -> bool:
        both = np.intersect1d(one.words, other.words, assume_unique=True)
        return bool((self._kinds(mine) & self._kinds(theirs)) - self._kinds(both))

    def _is_denied(self, one: Wording, other: Wording, mine: np.ndarray, theirs: np.ndarray) -> bool:
        denies = [bool(np.isin(self._denials, side.words).any()) for side in (one, other)]
        return denies[0] != denies[1] and max(len(mine), len(theirs)) <= _MOST_WITH_DENIAL

    def _kinds(self, words: np.ndarray) -> set[int]:
        return set(self._kind_of[np.isin(self._words, words)].tolist())
