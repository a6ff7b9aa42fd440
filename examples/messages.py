"""Write messages.txt: short messages, one a line, each marked ham or spam, made up from lists of words.

python examples/messages.py [rows] > messages.txt
"""

from __future__ import annotations

import random
import sys

HAM = """see you at home tonight|are we still on for lunch|the meeting moved to friday|can you call me later|
happy birthday|did you feed the cat|running late sorry|the train is late again|thanks for dinner it was lovely|
what time is the film|mum says hello|i left my keys at the office|shall we walk by the river on sunday|
the report is nearly done|pick up some milk please|good luck with the exam""".replace("\n", "").split("|")
SPAM = """you have won a prize call now|free entry in our weekly draw|claim your cash reward today|
urgent reply to this text|cheap loans with no credit check|win a holiday for two|your account has a bonus waiting|
txt stop to end|exclusive offer only for you|congratulations you were selected""".replace("\n", "").split("|")
FILLER = "ok so well just really maybe today tomorrow now then still here there yes no please thanks hey hi x".split()
NAMES = [f"{first}{last}" for first in "anna ben carla dev elif finn".split() for last in range(60)]


def message(chance: random.Random) -> tuple[str, str]:
    """A label and a text; some spam tries to look like ham."""
    is_spam = chance.random() < 0.3
    words = chance.choice(SPAM if is_spam else HAM).split()
    if chance.random() < 0.25:
        words += chance.choice(HAM if is_spam else HAM + SPAM[:2]).split()
    words += chance.choices(FILLER, k=chance.randrange(6))
    words += chance.choices(NAMES, k=chance.randrange(3))
    if is_spam and chance.random() < 0.5:
        words.append(f"{chance.choice(['0800', '0870', '0906'])}{chance.randrange(10**4):04}")
    chance.shuffle(words)
    return "spam" if is_spam else "ham", " ".join(words)


if __name__ == "__main__":
    generator = random.Random(0)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 6000):
        print("\t".join(message(generator)))
