"""The same statement in different words: the semantic duplicates among the sample texts, with a search query for
each.

Hand-written. Every pair shares under a third of its word 5-grams and has a MiniLM-L6 cosine of at least 0.89 (measured
when written, docs/sample.md).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its wordings, and a question that all of them answer."""

    query: str
    wordings: tuple[str, ...]


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Which river crossing was shut because its masonry was cracked?",
        (
            "The old stone bridge over the river was closed on Monday because engineers found deep cracks in "
            "its arches. Lorries must now take a detour of twelve "
            "kilometres, and the council plans to build a new steel bridge within three years.",
            "The old stone river bridge was shut on Monday after engineers discovered deep cracks in the "
            "arches. Lorries have to take a twelve kilometre detour, "
            "and within three years the council wants to put up a new steel bridge.",
            "Because of deep cracks that engineers found in the arches, the old stone bridge across the river "
            "has been closed since Monday. The council plans a new "
            "bridge of steel in three years; lorries face a detour of twelve kilometres until then.",
        ),
    ),
    Statement(
        "Does drinking coffee late in the day harm sleep?",
        (
            "Drinking coffee in the late afternoon makes it harder to fall asleep. Researchers asked forty "
            "volunteers to drink two cups at five o'clock and found "
            "that, on average, they slept one hour less than on evenings without caffeine.",
            "A study of forty volunteers shows that coffee late in the afternoon makes falling asleep more "
            "difficult: after two cups at five o'clock people lost "
            "about an hour of sleep compared with evenings when they had no caffeine.",
        ),
    ),
    Statement(
        "Why are honeybee colonies dying in winter?",
        (
            "Beekeepers lost almost half of their honeybee colonies last winter. Scientists blame a parasitic "
            "mite together with pesticides and a lack of wild "
            "flowers, and they advise farmers to leave strips of meadow beside their fields.",
            "Nearly half of all honeybee colonies died last winter, beekeepers report. According to "
            "scientists a parasitic mite, pesticides and too few wild "
            "flowers are the cause; farmers should keep strips of meadow along the edges of their fields.",
            "Last winter almost half of the honeybee colonies of beekeepers were lost. Scientists blame "
            "pesticides, the lack of wild flowers and a parasitic mite, "
            "and their advice to farmers is to leave meadow strips next to the fields.",
        ),
    ),
    Statement(
        "How does a sleeping lion spend most of its day?",
        (
            "Lions sleep up to twenty hours a day. They save their strength in the heat and hunt mostly at "
            "night, when lionesses work together to surround zebras "
            "and antelopes while the males guard the territory.",
            "A lion may spend as many as twenty hours of the day asleep. It saves strength while it is hot; "
            "hunting is done mainly at night by lionesses, which "
            "encircle antelopes and zebras as a team, and the territory is guarded by the males.",
        ),
    ),
    Statement(
        "What should one do with a phone battery to make it last?",
        (
            "To make the battery of your phone last longer, keep its charge between twenty and eighty per "
            "cent, avoid heat, and do not leave it plugged in "
            "overnight. Fast charging should be used only when you are in a hurry.",
            "The battery in your phone lasts longer if you avoid heat, keep it charged between twenty and "
            "eighty per cent and never leave it plugged in all night. "
            "Use fast charging just when you are in a hurry.",
        ),
    ),
    Statement(
        "Which painting came back to its museum after a theft decades ago?",
        (
            "A painting that was stolen from the city museum thirty years ago has been returned. A lawyer "
            "delivered the small portrait of a girl with a goat in a "
            "plain cardboard box, and said that her client wished to stay anonymous.",
            "Thirty years after it was stolen, a painting has come back to the city museum: a lawyer, whose "
            "client wants to stay anonymous, delivered the small "
            "portrait of a girl and her goat in an ordinary cardboard box.",
            "The city museum has its painting back, which was stolen thirty years ago. A lawyer for an "
            "anonymous client returned the small portrait of a girl with "
            "a goat; it came in a plain cardboard box.",
        ),
    ),
    Statement(
        "Why are glaciers important for farmers' water?",
        (
            "The glacier above the valley has lost a third of its ice since 1990. Farmers depend on its "
            "meltwater in dry summers, and if the glacier disappears "
            "they will need reservoirs to water their orchards.",
            "Since 1990 one third of the ice in the glacier over the valley has melted away. In dry summers "
            "farmers rely on water from the glacier; should it "
            "vanish, their orchards would have to be watered from reservoirs.",
        ),
    ),
    Statement(
        "How can a child learn to swim without fear?",
        (
            "Children learn to swim best in warm, shallow water and in small groups. The teacher first lets "
            "them blow bubbles and float on their backs, so that "
            "they lose their fear before any strokes are practised.",
            "Small groups and warm, shallow water are best when children learn swimming. Before practising "
            "strokes the teacher has them float on the back and blow "
            "bubbles, which takes away their fear.",
        ),
    ),
    Statement(
        "Who cut the power to the city with a digger?",
        (
            "An excavator cut a main cable near the station this morning and left eighty thousand homes "
            "without electricity. Trams stopped, traffic lights went "
            "dark, and the power company needed five hours to repair the damage.",
            "This morning eighty thousand homes lost their electricity when an excavator near the station cut "
            "through a main cable. Traffic lights failed, the "
            "trams stood still, and repairs took the power company five hours.",
            "Eighty thousand homes had no power this morning after a main cable by the station was cut by an "
            "excavator. It took the electricity company five hours "
            "to repair it, and meanwhile trams and traffic lights were out of action.",
        ),
    ),
    Statement(
        "How was the moon formed according to scientists?",
        (
            "Most scientists think that the Moon was formed when a body as large as Mars struck the young "
            "Earth. The hot debris of the collision gathered in orbit "
            "and slowly cooled into the Moon.",
            "The Moon, most scientists believe, is the result of a collision between the young Earth and a "
            "body the size of Mars: hot debris collected in orbit and "
            "cooled slowly until the Moon had formed.",
        ),
    ),
    Statement(
        "What is the trick for crisp fried potatoes?",
        (
            "For crisp chips, cut the potatoes into thick sticks, rinse off the starch, and fry them twice: "
            "first slowly at low heat until soft, then briefly in "
            "very hot oil until golden. Salt them at the very end.",
            "Chips become crisp if the potatoes are fried twice. Cut thick sticks, rinse away the starch, fry "
            "them gently at low heat till soft and then for a "
            "short time in very hot oil till they are golden; salt comes last.",
        ),
    ),
    Statement(
        "Should employees be allowed to work only four days?",
        (
            "The company tried a week of four working days for six months with full pay. Employees were ill "
            "less often, the output stayed the same, and so the "
            "management decided to keep the shorter week.",
            "For six months the company tried a working week of only four days on full pay. The output did "
            "not change, employees were ill less often than before, "
            "and management has decided that the shorter week will be kept.",
        ),
    ),
    Statement(
        "Which language almost died but is taught again at school?",
        (
            "The island's old language had only nine speakers left, all of them over seventy. Since the "
            "school began to teach it ten years ago, more than three "
            "hundred children can hold a conversation in it.",
            "Ten years ago the old language of the island was spoken by just nine people, every one older "
            "than seventy. Now that it is taught at school, over three "
            "hundred children are able to hold a conversation in that language.",
        ),
    ),
    Statement(
        "How do volcanoes make soil good for growing crops?",
        (
            "Volcanic ash makes soil very fertile because it is rich in minerals such as potassium and "
            "phosphorus. That is why people farm the slopes of volcanoes "
            "in spite of the danger of an eruption.",
            "Soil with volcanic ash is extremely fertile, since the ash contains minerals like phosphorus and "
            "potassium. For that reason people keep farming on the "
            "slopes of volcanoes although an eruption is a danger.",
        ),
    ),
)
