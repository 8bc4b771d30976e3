"""What the sample's voices say: everyday sentences, each about something else, in words that any pronouncing
dictionary has. Data only."""

from __future__ import annotations

from mmlake.sample.chance import pick, stream

SENTENCES: tuple[str, ...] = tuple(
    line.strip()
    for line in """
    The farmer drove his tractor through the gate before the rain began.
    My sister keeps three goldfish in a glass bowl by the window.
    Please leave the parcel with the neighbor on the second floor.
    A small airplane landed on the frozen lake yesterday morning.
    The teacher wrote a difficult equation on the blackboard.
    He forgot his wallet on the bus and had to walk home.
    The soup needs more pepper and a little lemon juice.
    Our dentist moved to a new office above the bank.
    Seven camels crossed the desert under a burning sun.
    She repaired the old bicycle with a borrowed wrench.
    The judge listened in silence and then read the verdict.
    Children were building a castle of sand near the water.
    The elevator is broken, so we have to take the stairs.
    An owl called from the dark forest behind the barn.
    The printer has run out of paper and blue ink.
    His grandmother danced at the wedding until midnight.
    The museum opens at ten and closes at six in the evening.
    They painted the kitchen yellow and the bedroom green.
    A thunderstorm knocked down the tallest tree in the park.
    The astronaut floated slowly toward the open hatch.
    I would like two tickets for the concert on Friday.
    The shepherd counted his sheep and found one missing.
    Nobody answered the telephone although it rang all day.
    The carpenter measured the table twice and cut it once.
    Fresh bread is delivered to the hotel at five every morning.
    The goalkeeper jumped to the left and caught the ball.
    A thick fog covered the harbor and the ships sounded their horns.
    The doctor told him to drink water and stay in bed.
    We planted tomatoes and beans behind the garden shed.
    The violin was locked in a black case under the stairs.
    An old man sold roasted chestnuts at the corner of the square.
    The baby slept while the train rattled over the bridge.
    Scientists measured the temperature of the deep ocean.
    The candle went out and the whole room turned dark.
    Her passport expired a week before the holiday.
    The library asked everyone to return books by Monday.
    Two kittens chased a ball of wool across the carpet.
    The mountain road is closed because of heavy snow.
    He collects stamps from countries that no longer exist.
    The river rose during the night and flooded the cellar.
    A famous actor bought the empty house next door.
    The mechanic changed the tires and checked the brakes.
    She whispered the secret password to the guard.
    The bees returned to the hive when the wind grew cold.
    My uncle plays chess by letter with a friend in Canada.
    The waiter dropped a tray of glasses on the marble floor.
    The clock in the tower has been five minutes slow for years.
    They found a wooden chest full of letters in the attic.
    The coach asked the swimmers to rest before the final race.
    Dark chocolate tastes best with a pinch of salt.
    The police stopped a truck with a broken headlight.
    A young woman was reading a newspaper on the bench.
    The tailor shortened the sleeves of the gray jacket.
    The satellite sends pictures of the clouds every hour.
    Our dog hates fireworks and hides beneath the sofa.
    The mayor promised cheaper buses before the election.
    The painter mixed red and white to get a soft pink.
    A hungry bear broke into the cabin and ate the honey.
    The pharmacist explained how often to take the medicine.
    He learned to juggle four oranges during the winter.
    The pilot announced a delay of twenty minutes.
    The statue in the middle of the fountain has lost its nose.
    A spider had built its web across the garden door.
    The factory makes wooden toys for children under five.
    The choir practiced the same song again and again.
    The price of gasoline went up for the third time this month.
    An elephant lifted the log with its trunk and carried it away.
    The student fell asleep over his history homework.
    The blacksmith hammered the glowing iron into a hook.
    They ate sandwiches on the roof and watched the stars.
    The lawyer signed every page with a silver pen.
    The icy pavement made walking to school very dangerous.
    """.strip().splitlines()
)
_PEOPLE = (
    "The gardener",
    "A soldier",
    "My cousin",
    "The new student",
    "An old sailor",
    "The nurse",
    "Our neighbor",
    "The cook",
    "A tall stranger",
    "The postman",
    "The farmer",
    "His daughter",
    "The singer",
    "A tourist",
    "The librarian",
)
_DEEDS = (
    "carried",
    "found",
    "sold",
    "painted",
    "borrowed",
    "lost",
    "described",
    "cleaned",
    "photographed",
    "hid",
    "bought",
    "repaired",
    "forgot",
    "stole",
    "returned",
)
_THINGS = (
    "a heavy suitcase",
    "the broken lamp",
    "a basket of cherries",
    "the winter coat",
    "a map of the city",
    "the golden ring",
    "an empty barrel",
    "the leather boots",
    "a pair of scissors",
    "the kitchen clock",
    "a bottle of perfume",
    "the wooden ladder",
    "a box of matches",
    "the blue umbrella",
    "a sack of potatoes",
    "the silver spoon",
    "an electric guitar",
    "the garden hose",
    "a birthday cake",
    "the missing key",
)
_WHERES = (
    "behind the church",
    "in the middle of the night",
    "near the railway station",
    "during the long winter",
    "at the end of the street",
    "before the school bell",
    "on the way to the airport",
    "under the stone bridge",
    "beside the swimming pool",
    "after the football match",
    "outside the hospital",
    "in a crowded market",
    "between the two houses",
    "on a rainy afternoon",
    "at the edge of the desert",
)


def spoken(number: int, seed: int) -> tuple[str, ...]:
    """Two or three sentences that no other number says."""
    rng = stream(seed, "sentence", number)
    made = (
        " ".join(
            (
                pick(rng, _PEOPLE),
                pick(rng, _DEEDS),
                _THINGS[number % len(_THINGS)],
                _WHERES[(number * 7 + number // 20) % len(_WHERES)],
            )
        )
        + "."
    )
    if number < len(SENTENCES):
        return (SENTENCES[number], made)
    extra = " ".join((pick(rng, _PEOPLE), pick(rng, _DEEDS), pick(rng, _THINGS), pick(rng, _WHERES))) + "."
    return (made, extra, f"That was number {number}.")
