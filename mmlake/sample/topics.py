"""The vocabulary of the sample documents: twelve topics, each with its own subjects, people, things, verbs and
observations.

A subject is what one document is about; `a|b` gives the same subject in other words, for search probes. Data only.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Topic:
    """What documents of one topic are made from; every field is a tuple of phrases."""

    name: str
    subjects: tuple[str, ...]
    roles: tuple[str, ...]
    things: tuple[str, ...]
    verbs: tuple[str, ...]
    clauses: tuple[str, ...]


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in " ".join(text.split()).split(";") if part.strip())


def _topic(name: str, *, subjects: str, roles: str, things: str, verbs: str, clauses: str) -> Topic:
    return Topic(
        name=name,
        subjects=_split(subjects),
        roles=_split(roles),
        things=_split(things),
        verbs=_split(verbs),
        clauses=_split(clauses),
    )


TOPICS: tuple[Topic, ...] = (
    _topic(
        "astronomy",
        subjects="""
            the merger of two neutron stars|a collision of collapsed stars; the dust storms of Mars|sand-laden winds on
            the red planet; the polishing of telescope mirrors; the return of a long-period comet; the rings of Saturn;
            a pulsar that skipped a beat; the craters of Mercury; the oceans under the ice of Europa; the counting of
            meteors in August; a solar eclipse seen from a ferry; the radio silence zone around an antenna; the hunt for
            planets around red dwarfs|searching for worlds that circle small cool suns; light pollution over suburbs;
            the storms of Jupiter; a failed satellite launch; the chemistry of interstellar clouds; the age of globular
            clusters; a sundial restored on a school wall; gravitational lensing by galaxies; the return of lunar rock
            samples; a planetarium built in a grain silo; sunspots drawn by hand; aurora photographed from a trawler;
            the tail of Halley's visitor in old tapestries; adaptive optics and laser guide stars; the slow drift of the
            pole star
        """,
        roles="observer; optician; graduate student; mission planner; radio engineer; amateur stargazer; "
        "spectroscopist; dome technician",
        things="""
            a cooled camera; three faint plates; the guiding motor; a cracked eyepiece; spectra of hydrogen; the night
            log; a borrowed dish; copper waveguides; the finder chart; a spare filter wheel; calibration lamps; seven
            exposures
        """,
        verbs="calibrated; photographed; remeasured; stacked; misread; timed; archived; aligned; compared; dismantled",
        clauses="""
            clouds closed the dome before dawn; the signal faded below the noise; nobody had predicted such a
            brightness; the orbit turned out to be hyperbolic; the image sharpened within minutes; two catalogues
            disagreed by a degree; frost crept over the lens; the redshift was larger than expected
        """,
    ),
    _topic(
        "cooking",
        subjects="""
            a sourdough starter kept for forty years|an old fermented leaven for bread; smoked eel on rye; the secret of
            a clear consomme; fermented cabbage in clay jars; a wedding cake of nine tiers; pickled green tomatoes; the
            sharpening of kitchen knives; dumplings folded by candlelight; a chilli sauce that sold out|the hot pepper
            condiment nobody could restock; chestnut flour pancakes; the ripening of blue cheese; saffron and its
            forgeries; a canteen that feeds four hundred miners; lemon marmalade; tempering chocolate on marble; bone
            broth for cold mornings; a soup kitchen run by retired pilots; wild garlic pesto; oysters opened on the
            quay; the perfect poached egg; noodles pulled by hand; a recipe found behind a stove; burnt sugar and
            caramel; olives cured in ash; a lentil stew for pilgrims; roasting coffee in a shed
        """,
        roles="pastry chef; baker; dishwasher; food writer; cheesemonger; sommelier; apprentice; grandmother",
        things="""
            a copper pan; coarse salt; two bay leaves; the wooden ladle; brown butter; a crate of lemons; rolled oats;
            the oven thermometer; warm milk; toasted cumin; a linen cloth; egg yolks
        """,
        verbs="simmered; whisked; kneaded; tasted; glazed; strained; salted; burned; chilled; served",
        clauses="""
            the crust cracked like thin ice; guests asked for a second helping; the sauce split at the last moment;
            steam fogged every window; the dough doubled overnight; nothing was wasted; the smell reached the street; a
            pinch of nutmeg changed everything
        """,
    ),
    _topic(
        "sea",
        subjects="""
            the salvage of a sunken lightship|raising a wrecked beacon vessel from the seabed; a ferry strike in winter;
            herring that never arrived; knots taught to cadets; the lighthouse that lost its keeper|an unmanned tower
            guarding the coast; tide tables carved in oak; a solo crossing in a plywood boat; barnacles on tanker hulls;
            a harbour dredged at night; whaling songs in a museum; the painting of buoys; a message in a bottle;
            container ships lost in fog; the raising of an anchor chain; a regatta without wind; smuggling in the
            marshes; sea walls after the spring surge; a submarine turned into a hotel; pilots who board moving ships;
            mussel ropes and starfish; charts drawn from memory; the last sail loft; a rescue by breeches buoy; salt
            pans abandoned by their owners; the dry dock that leaked; an icebreaker stuck in slush
        """,
        roles="harbour master; boatswain; net mender; diver; coastguard; shipwright; deckhand; pilot",
        things="""
            a tarred rope; the starboard lamp; forty fathoms of cable; a brass sextant; wet canvas; the bilge pump; cork
            floats; a torn jib; oak planks; the tide gauge; a flare pistol; barrels of tallow
        """,
        verbs="hauled; caulked; spliced; sounded; boarded; moored; patched; signalled; lowered; surveyed",
        clauses="""
            the swell rose over the breakwater; gulls followed every haul; the compass swung without reason; visibility
            dropped to a cable's length; the crew slept in their boots; the keel touched sand; the channel had silted
            up; rust had eaten the rivets
        """,
    ),
    _topic(
        "garden",
        subjects="""
            a walled orchard of forgotten pears|old fruit trees behind brick; slugs and how to outwit them; compost that
            heats a greenhouse; the grafting of roses; a bonsai passed through three families; tulips planted upside
            down; a drought that killed the lawns; pruning vines in February; bees in a rooftop hive|an apiary on top of
            a building; the naming of a new dahlia; moss gardens in the rain; seeds swapped at a fair; a pumpkin too
            heavy to lift; hedges cut into elephants; willow weaving; allotments beside a motorway; orchids in a cold
            conservatory; nettles as fertiliser; a fig tree that split a wall; medlars and quinces; the return of
            earthworms; watering cans from old tins; a maze of beech; poisonous plants behind a fence; lavender
            harvested by moonlight; frost cloth and late potatoes
        """,
        roles="head gardener; botanist; seed merchant; beekeeper; neighbour; landscape student; groundskeeper; "
        "volunteer",
        things="""
            a rusty spade; bone meal; terracotta pots; last year's bulbs; the cold frame; a barrow of mulch; hazel
            poles; grafting wax; two dozen seedlings; the hose; chalky soil; a pair of secateurs
        """,
        verbs="pruned; transplanted; watered; labelled; dug over; grafted; weeded; sowed; divided; sheltered",
        clauses="""
            blackbirds stripped the lower branches; roots had circled the pot; the petals opened at dusk; a late frost
            blackened the shoots; the scent filled the lane; aphids came back in June; the soil stayed warm until
            October; every cutting took
        """,
    ),
    _topic(
        "railway",
        subjects="""
            a timetable printed on a tea towel|train hours shown on a kitchen cloth; the last steam shunter; a tunnel
            dug from both ends; signal boxes turned into cafes; sleepers made of recycled plastic; a night train without
            passengers; rails that buckle in heat; the clock of a border station; model railways in an attic|miniature
            trains beneath the roof; a strike of ticket inspectors; overhead wires stolen for copper; level crossings
            and their gates; a viaduct repainted after decades; freight wagons full of sugar; the announcements nobody
            understands; a funicular on a chalk cliff; lost umbrellas at the depot; brakes tested on a gradient; narrow
            gauge through the peat; a royal waiting room; snow ploughs in April; commuters who play chess; an
            underground line flooded by a spring; automatic couplings; a derailment without injuries; the whistle code
            of drivers
        """,
        roles="signalman; conductor; track engineer; fireman; dispatcher; porter; apprentice fitter; stationmaster",
        things="""
            a brass whistle; the points lever; ballast stones; six carriages; a paper ticket; the boiler plate; an oil
            can; the relay cabinet; welded rail; a red flag; wheel bearings; the waiting-room bench
        """,
        verbs="inspected; uncoupled; greased; rerouted; delayed; rewired; flagged; shunted; repainted; counted",
        clauses="""
            the express ran eleven minutes late; sparks lit up the cutting; passengers applauded from the platform; the
            gradient defeated the engine; the signals failed at noon; fog hid the distant lamp; the bridge hummed under
            the load; no replacement bus appeared
        """,
    ),
    _topic(
        "medicine",
        subjects="""
            a vaccine kept cold in the desert|storing inoculations safely in extreme heat; sleep loss among night
            nurses; a prosthetic hand printed at home; the history of aspirin; allergies to hazelnuts; blood donors on
            an island; a hospital ship; leeches in modern surgery; the training of guide dogs; tinnitus in musicians;
            stethoscopes and their inventor; a fracture clinic at the ski lift; malaria nets sewn by inmates; hand
            washing and childbed fever; the placebo in a sugar pill; robotic surgery on a knee; dental care in the
            arctic; a cure for scurvy|overcoming a disease of vitamin shortage; cataracts removed in a tent; midwives on
            bicycles; the smell of diabetes; growing skin for burns; snake antivenom from horses; migraine diaries; a
            stroke spotted by a barber; heart rhythm on a wristwatch
        """,
        roles="ward sister; surgeon; pharmacist; paramedic; epidemiologist; trainee doctor; physiotherapist; patient",
        things="""
            a blood sample; sterile gauze; the dosage chart; an old microscope; two control groups; the waiting list; a
            saline drip; x-ray plates; the consent form; cotton masks; a pulse monitor; test strips
        """,
        verbs="examined; diagnosed; prescribed; monitored; disinfected; vaccinated; bandaged; screened; recorded; "
        "discharged",
        clauses="""
            the fever broke on the third night; side effects were mild; the trial ended ahead of schedule; the wound
            healed without a scar; symptoms returned after a month; relatives slept in the corridor; the dose had been
            halved; recovery took most of the year
        """,
    ),
    _topic(
        "music",
        subjects="""
            a cello carved from bog oak|the string instrument made of ancient swamp timber; the tuning of church bells;
            a choir of tram drivers; an opera sung in a quarry; harmonicas in prison; the lost score of a ballet; a
            drummer with one arm; pipe organs and damp; a festival for accordions; vinyl pressed in a garage|records
            manufactured beside a parked car; the silence between movements; street musicians and permits; a conductor
            who counts aloud; lullabies collected by a postman; synthesizers built from radios; fiddle tunes of the
            fens; a metronome in the museum; piano movers on a spiral stair; perfect pitch in toddlers; jazz on a
            houseboat; an orchestra of scrap metal; the varnish of violins; bagpipes at sea; a hymn with the wrong
            words; film scores for silent pictures; rehearsals by telephone
        """,
        roles="violinist; choirmaster; luthier; sound engineer; organist; page turner; composer; critic",
        things="""
            a horsehair bow; the second movement; ivory keys; a tuning fork; handwritten parts; reed blades; a felt
            hammer; the bass drum; folding chairs; a cracked cymbal; rosin; the encore
        """,
        verbs="rehearsed; tuned; transposed; recorded; improvised; restrung; conducted; hummed; annotated; performed",
        clauses="""
            the final chord hung in the rafters; the tempo crept upward; the audience forgot to cough; a string snapped
            in the adagio; the melody wandered into minor; somebody whistled the theme outside; the echo lasted nine
            seconds; the soloist bowed twice
        """,
    ),
    _topic(
        "sport",
        subjects="""
            a goalkeeper who scored from a corner|the keeper heading home a set piece; fencing in wheelchairs; a
            marathon run backwards; curling stones from one island; the grass of centre court; a chess boxer; rowing
            before sunrise; a referee who changed his mind; judo for pensioners; the long jump pit at low tide; doping
            tests by post; cricket on a volcano; a swimming pool heated by bakeries|public baths warmed with waste heat
            from ovens; skateboards of the seventies; archery in fog; a cycling team without a sponsor; table tennis in
            embassies; the offside rule explained; a stadium made of ice; mountain runners and goats; the weight of a
            javelin; roller derby nicknames; blind football; a relay lost by a glove; wrestling in sawdust; trampolines
            on the roof
        """,
        roles="coach; sprinter; physiologist; linesman; captain; substitute; trainer; commentator",
        things="""
            a stopwatch; the away kit; chalk lines; the baton; two penalties; a mouthguard; spiked shoes; the
            scoreboard; a cracked helmet; ankle tape; the warm-up; a bronze medal
        """,
        verbs="sprinted past; outplayed; defended; trained; overtook; tackled; cheered; disqualified; coached; "
        "equalised against",
        clauses="""
            the crowd fell silent at the whistle; rain turned the pitch to soup; the record stood for one afternoon;
            extra time settled nothing; the bench rose as one; cramp struck on the final lap; the appeal was dismissed;
            the underdogs took the trophy home
        """,
    ),
    _topic(
        "markets",
        subjects="""
            the price of onions|what people pay for a common bulb vegetable; a bank run in a village; counterfeit coins
            made of lead; pension funds and forests; the auction of a lighthouse; barter during the blackout; a currency
            printed on leather; inflation at the bakery; shell companies with one desk; microloans for beekeepers; a tax
            on windows; the stock exchange mascot; rice futures; an accountant who found a fortune|the bookkeeper's
            discovery of hidden wealth; insurance against rain; tariffs on umbrellas; a shop without cash; the cost of
            lost luggage; lottery winners and neighbours; wages paid in salt; the rise of repair cafes; second-hand
            uniforms; rent control on a canal; a merger of two breweries; gold teeth and pawnbrokers; customs officers
            and cheese
        """,
        roles="economist; trader; bookkeeper; auditor; shopkeeper; union delegate; broker; mayor",
        things="""
            a ledger; quarterly figures; the interest rate; unpaid invoices; a bond certificate; the reserve fund;
            import duties; a cash drawer; two creditors; the dividend; a rent book; wholesale prices
        """,
        verbs="audited; borrowed against; traded; refunded; taxed; invested in; undercut; auctioned; insured; wrote "
        "off",
        clauses="""
            confidence returned by the weekend; demand collapsed without warning; queues formed around the block; the
            discount attracted nobody; margins shrank to almost nothing; regulators asked for papers; the deficit
            widened again; savings moved abroad overnight
        """,
    ),
    _topic(
        "archaeology",
        subjects="""
            a mosaic under a car park|an ancient tiled floor beneath parked vehicles; bog butter; runes on a drinking
            horn; the burial of a horse; a shipwreck of amphorae; cave paintings behind a waterfall; clay tablets about
            beer; a Viking comb; the dating of oak beams|telling the age of timber from its growth rings; a Roman
            latrine; pottery shards and fingerprints; an aqueduct in a vineyard; mummified cats; flint knappers at work;
            a hoard of silver spoons; the road beneath the road; footprints in estuary mud; a temple reused as a barn;
            ancient board games; drones over burial mounds; obsidian trade; a sarcophagus in a garden; the wall that
            kept nobody out; seeds in a granary pit; a forged idol; standing stones moved by farmers
        """,
        roles="excavator; conservator; surveyor; epigrapher; museum curator; osteologist; illustrator; farmhand",
        things="""
            a bronze pin; charred grain; the fourth trench; a soft brush; stratified ash; a carved lintel; painted
            plaster; the site grid; loom weights; a broken jar; cattle bones; the finds tray
        """,
        verbs="excavated; catalogued; dated; restored; sketched; sieved; misattributed; uncovered; photographed; "
        "reburied",
        clauses="""
            the inscription broke off mid-word; rain flooded the lower trench; the layer was older than the wall; a
            second chamber lay behind; the pigment was still bright; looters had come first; the pattern matched a
            distant site; the radiocarbon date surprised everyone
        """,
    ),
    _topic(
        "computing",
        subjects="""
            a bug that appeared every leap year|the software fault that came back each fourth February; punched cards
            found in a loft; compilers written in their own language; a keyboard for one hand; error-correcting codes;
            the first webcam; spam filters that learn; a data centre in a fjord; floppy disks and mould; random numbers
            from lava lamps; a chess program from the sixties; passwords on sticky notes; sorting networks; open maps
            drawn by cyclists; the garbage collector; a robot that folds towels; quantum error rates; emoji standards; a
            virus that played music; backups kept in a bakery|copies of files stored where bread is made; cellular
            automata; fonts for dyslexic readers; unit tests for elevators; an operating system for tractors; image
            compression in space; voice assistants and accents
        """,
        roles="programmer; system administrator; cryptographer; tester; hardware hacker; librarian; intern; product "
        "manager",
        things="""
            a null pointer; the build server; legacy code; a lookup table; two race conditions; the commit history; a
            soldering iron; magnetic tape; the cache; a hash function; the stack trace; an oscilloscope
        """,
        verbs="debugged; refactored; encrypted; benchmarked; emulated; patched; deployed; profiled; reverted; "
        "documented",
        clauses="""
            the loop never terminated; memory ran out after lunch; the fix was a single character; the log was silent
            about it; throughput doubled on old machines; users noticed before the alarms did; the checksum did not
            match; the server rebooted itself twice
        """,
    ),
    _topic(
        "wildlife",
        subjects="""
            storks on a power line|long-legged birds nesting on electric cables; the return of wolves; otters in a city
            canal; bats under a bridge; the song of humpbacks; salmon climbing a ladder; hedgehogs and lawn mowers; a
            census of sparrows; lynx seen by camera traps; fireflies in a quarry; the migration of eels; cranes that
            danced too early; toads helped across a road|amphibians carried over the highway; a swan with a tracker;
            beavers rebuilding a dam; the memory of crows; geckos and glass; jellyfish blooms; reindeer on thin ice; a
            beetle named after a singer; owls in the belfry; seals on a sandbank; ants that farm; moths drawn to
            stadiums; a parrot that coughed; pangolins and customs
        """,
        roles="ranger; ornithologist; vet; poacher turned guide; field biologist; falconer; schoolteacher; "
        "photographer",
        things="""
            a ringed leg; owl pellets; the hide; two fledglings; a radio collar; scat samples; the feeding station; a
            mist net; fresh tracks; antler velvet; egg shells; the den
        """,
        verbs="tracked; ringed; sheltered; counted; released; filmed; weighed; rescued; followed; tagged",
        clauses="""
            the flock turned at the river; the nest was empty by July; prints led into the reeds; the young hunted on
            their own; a cold spring delayed the eggs; the herd crossed at night; predators kept their distance; the
            call carried for miles
        """,
    ),
)

PLACES: tuple[str, ...] = _split(
    """
    Ardmoor; Belvasta; Carrick Sound; Dunholt; Estermere; Falkensund; Gorsebury; Hartwick; Invermoss; Jutland Bay;
    Kestrel Point; Lindisvale; Marrowgate; Nordhaven; Oakminster; Penruddy; Quillon; Ravensford; Saltmarsh; Tarnbridge;
    Umberfield; Vessmar; Wexcombe; Yarrowby; Zellin; Alder Ness; Brackwater; Cold Ferry; Drumlochy; Eskdale Mill;
    Fennimore; Greywell; Hollin Head; Isenbruck; Juniper Flats; Kirkstrand; Lower Tamsin; Mistral Heath; Nettlecote; Old
    Pellory
    """
)
NAMES: tuple[str, ...] = _split(
    """
    Agnes Holm; Bertil Rask; Chiara Lunt; Dov Meridor; Edda Quist; Farid Nasser; Greta Palm; Hugo Ferris; Ilse Brandt;
    Jonas Weir; Katya Orlov; Lucio Ferrante; Mabel Stoke; Nils Aker; Odile Mercier; Pavel Hruska; Quentin Shaw; Rosa
    Tamayo; Silvia Crane; Tomas Vey; Ursula Pike; Viktor Lowe; Wilma Dross; Xenia Markou; Yusuf Demir; Zora Blake; Amina
    Yusuf; Boris Tench; Clara Oduya; Desmond Ikeda; Elin Varga; Felix Moreau; Gudrun Steen; Hamid Karimi
    """
)
TIMES: tuple[str, ...] = _split(
    """
    last autumn; on a wet Tuesday; during the holidays; before breakfast; in the third week of May; after the elections;
    around midnight; over the long weekend; two winters ago; by early March; at the height of summer; within an hour; on
    the feast of the patron saint; since the flood; just after lunch; in the spring of that year; between two storms;
    long before anyone else
    """
)
QUALITIES: tuple[str, ...] = _split(
    """
    stubborn; elegant; costly; unexpected; modest; noisy; patient; curious; fragile; generous; awkward; brilliant; slow;
    careful; doubtful; cheerful; precise; reckless; ordinary; remarkable; tedious; quiet; bold; improvised
    """
)
