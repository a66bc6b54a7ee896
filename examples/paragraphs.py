"""Short texts on unrelated subjects, written for the demo."""

PARAGRAPHS = {
    "bees": (
        "A honey bee that has found a good meadow does not keep it to herself. Back in the dark of the hive "
        "she runs a short straight line over the comb, shaking her body, then circles round and runs it "
        "again. The angle of the line tells the others which way to fly, and the length of each run tells "
        "them how far. Her sisters crowd close, feel the movement with their antennae, taste a drop of the "
        "nectar she has brought, and set out. By noon a patch of clover that one bee discovered in the "
        "morning may be feeding half the colony."
    ),
    "glaciers": (
        "Ice looks solid, yet a glacier flows. Under the weight of many winters the lower layers soften and "
        "creep downhill, a hand's breadth a day in some valleys and a street's length in others. On its way "
        "the ice plucks boulders from the slopes and drags them along its bed like coarse sandpaper. When it "
        "finally melts back, it leaves a valley with a wide floor and steep walls, long ridges of rubble "
        "where its edges stood, and polished rock with parallel scratches that still point in the direction "
        "in which the ice once moved."
    ),
    "sourdough": (
        "Flour and water left on a kitchen shelf will start to bubble after a few days, because wild yeast "
        "and lactic bacteria were in the flour all along. Fed regularly, the mixture becomes a starter that "
        "can raise bread for years. The yeast makes the gas that lifts the loaf, while the bacteria make the "
        "acids that give it its taste and keep mould away. A cool kitchen slows the yeast more than the "
        "bacteria, so a dough that rests overnight in the refrigerator bakes into a sourer loaf with a "
        "darker, more brittle crust."
    ),
    "lighthouses": (
        "For a long time a lighthouse was only as good as the fire on its roof, and most of that light went "
        "up into the sky. The change came with a lens built from rings of glass, each ring a prism cut at its "
        "own angle, which bent nearly every ray into one flat beam. A lamp no stronger than before could "
        "suddenly be seen from twenty miles away. Keepers had to polish the glass each morning and wind the "
        "clockwork that turned it, and every tower got its own rhythm of flashes, so that a captain could "
        "tell one headland from the next."
    ),
    "corals": (
        "A coral is a small animal that builds its own house out of limestone and shares it with algae. The "
        "algae live in its tissue, turn sunlight into sugar, and pay most of it to the coral as rent. In "
        "clear warm water this bargain works so well that generations of tiny skeletons grow into reefs which "
        "can be seen from space. When the water stays too hot for some weeks, the partners part: the coral "
        "expels the algae, loses its colour, and starves slowly unless the sea cools down in time for new "
        "algae to move in."
    ),
    "paper": (
        "Before trees were pulped, paper was made of rags. Collectors went from door to door for worn linen, "
        "which was sorted, left to rot a little, and beaten under water-driven hammers until nothing but "
        "loose fibres remained. A worker dipped a wire mould into the vat and lifted it with one even shake, "
        "so that the fibres locked in both directions. The sheet was pressed between felts, hung in an airy "
        "loft, and brushed with glue to keep ink from spreading. Books printed on such paper five centuries "
        "ago are often whiter than a paperback of last year."
    ),
    "tides": (
        "The sea rises and falls twice a day on most coasts because the Moon pulls harder on the near side of "
        "the Earth than on the far one. The water stretches into two low bulges, and the turning globe "
        "carries each shore through both of them. The Sun does the same with less than half the strength. At "
        "new and full moon the two pull along one line and the range is large; in between they work against "
        "each other. In a narrow bay the wave has nowhere to spread, and a difference of centimetres in the "
        "open ocean may grow to the height of a house."
    ),
    "violins": (
        "A violin's string alone is almost silent, since it is far too thin to push much air. Its vibration "
        "has to pass through the bridge into the spruce of the top, and through a small post wedged inside "
        "the body to the maple of the back. Makers thin these plates by fractions of a millimetre, tapping "
        "and listening, because every patch of wood answers to a different pitch. The varnish protects the "
        "wood and changes the sound only slightly. What players praise in an old instrument is as much its "
        "easy response under the bow as its tone in the hall."
    ),
    "metros": (
        "Digging a railway under a living city began with trenches: a street was opened, walls and a roof "
        "were built, and the street was laid again on top. Deeper lines needed another idea, an iron shield "
        "pushed forward through the clay while workers lined the tunnel behind it. Trains below ground had to "
        "become electric, because smoke could not escape. The maps came last. A draughtsman noticed that "
        "passengers do not care about distance, only about the order of stations and where to change, and "
        "drew the lines straight, at angles that no tunnel ever followed."
    ),
    "volcanoes": (
        "Farmers return to the slopes of a volcano soon after the ash has settled, and they have reasons. "
        "Fresh ash is ground-up rock full of potassium, phosphorus and trace metals, and it weathers quickly "
        "into dark soil that holds water like a sponge. Coffee, wine and rice thrive on it. The danger is "
        "real, but eruptions are rare within one lifetime while harvests come every year, and families "
        "remember good seasons more readily than old disasters. Observatories now listen for tremors and "
        "measure the swelling of the mountain so that people can leave in time."
    ),
    "sleep": (
        "Sleep is not one state but several that take turns. In the first hours of the night the brain falls "
        "into slow, even waves, blood pressure drops, and the body mends what the day has worn. Towards "
        "morning the eyes begin to dart under closed lids, the muscles go slack, and dreams become long and "
        "strange. Each round of stages lasts about an hour and a half. People who are woken before the last "
        "rounds may feel rested in body and still find it hard to keep what they learned the day before, "
        "since memories seem to be sorted in that final stretch."
    ),
    "clocks": (
        "A pendulum clock keeps time because a swing of a given length always takes nearly the same while, "
        "however wide it is. The trick is to keep it swinging without disturbing it. A toothed wheel, driven "
        "by a falling weight, is held back by a small anchor that rocks with the pendulum; at every swing it "
        "lets one tooth escape, and the tooth gives the pendulum a tiny push in return. That is the tick. "
        "Heat lengthens a metal rod and makes the clock lose, so the best makers hung a jar of mercury at the "
        "end, which rose as the rod grew and evened things out."
    ),
}
