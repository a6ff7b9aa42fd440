"""LIBSVM and VW text read plainly, line by line, to compare the compiled parsers with; mutated texts to try on both.

Run as a script it tries many: ``python tests/support/text_reference.py libsvm 100000``.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
BLANKS = re.compile(rb"[ \t]+")


class Wrong(Exception):  # noqa: N818
    """A line that must be refused."""


def plain_number(word):
    if not NUMBER.fullmatch(word):
        raise Wrong(word)
    value = float(word)
    if not abs(value) <= 1e75:
        raise Wrong(word)
    return value


def words_of(line):
    return [word for word in BLANKS.split(line) if word]


def libsvm_row(line, zero_based=True):
    """(label, entries), None for a line without a row."""
    words = words_of(line.partition(b"#")[0])
    if not words:
        return None
    row = {}
    for word in words[1:]:
        index, colon, value = word.partition(b":")
        if index == b"qid" and colon:
            if not NUMBER.fullmatch(value):
                raise Wrong(word)
            continue
        if not re.fullmatch(rb"\d{1,19}", index) or not colon or not int(index) < 2**32 - 1:
            raise Wrong(word)
        value = plain_number(value)
        if int(index) in row:
            raise Wrong(word)
        row[int(index)] = value
    return plain_number(words[0]), 1.0, "", {str(index): value for index, value in row.items() if value}


def vw_row(line, quadratic=()):
    """(label, weight, tag, entries by name), None for an empty line."""
    if not words_of(line):
        return None
    head, bar, rest = line.partition(b"|")
    if not bar:
        raise Wrong(line)
    words, tag = words_of(head), b""
    if words and (words[-1].startswith(b"'") or head[-1:] not in (b" ", b"\t")):
        tag = words.pop()
        if not words and NUMBER.fullmatch(tag):
            raise Wrong(tag)
    if len(words) > 3:
        raise Wrong(line)
    numbers = [plain_number(word) for word in words]
    if len(numbers) > 1 and numbers[1] < 0.0 or len(numbers) > 2 and numbers[2] != 0.0:
        raise Wrong(line)
    entries = []
    for part in rest.split(b"|"):
        tokens = words_of(part)
        space, scale, unnamed = b"", 1.0, 0
        if part[:1] not in (b"", b" ", b"\t"):
            space, colon, value = tokens.pop(0).partition(b":")
            scale = plain_number(value) if colon else 1.0
        for token in tokens:
            name, colon, value = token.partition(b":")
            if not name:
                name = b"%d" % unnamed
                unnamed += 1
            value = (plain_number(value) if colon else 1.0) * scale
            entries.append((space, space + b"^" + name if space else name, value))
    for a, b in quadratic:
        for p, (space, name, value) in enumerate(list(entries)):
            for q, (other, second, factor) in enumerate(entries[:]):
                if b"*" in (space[-1:], other[-1:]):
                    continue
                if (a == ":" or (space[:1] or b" ") == a.encode()) and (b == ":" or (other[:1] or b" ") == b.encode()):
                    if a != b or q >= p:
                        entries.append((b"*", name + b"*" + second, value * factor))
    row = defaultdict(float)
    for _, name, value in entries:
        if not abs(value) <= 1e75:
            raise Wrong(name)
        row[name.decode("utf-8", "surrogateescape")] += value
    label, weight = (numbers[0] if numbers else None), (numbers[1] if len(numbers) > 1 else 1.0)
    return label, weight, tag.removeprefix(b"'").decode("utf-8", "surrogateescape"), {k: v for k, v in row.items() if v}


ROWS = {"libsvm": libsvm_row, "vw": vw_row}


def read_plainly(text, format):
    """All rows, and the numbers of the lines that must be refused."""
    rows, wrong = [], set()
    text = text.removeprefix(b"\xef\xbb\xbf") + (b"" if text.endswith(b"\n") else b"\n")
    for number, line in enumerate(text.replace(b"\r\n", b"\n").split(b"\n"), 1):
        try:
            row = ROWS[format](line)
        except Wrong:
            wrong.add(number)
        else:
            rows += [] if row is None else [row]
    return rows, wrong


def rows_of(stream):
    """The rows of a stream in the same form."""
    rows = []
    for chunk in stream:
        names = stream.names
        assert chunk.first == len(rows) and len(set(chunk.indices.tolist())) <= chunk.d
        for i in range(chunk.rows):
            part = slice(chunk.indptr[i], chunk.indptr[i + 1])
            cells = zip(chunk.indices[part].tolist(), chunk.data[part].tolist(), strict=True)
            entries = {names.get(j, str(j)): v for j, v in cells}
            assert len(entries) == part.stop - part.start
            label = None if np.isnan(chunk.y[i]) else float(chunk.y[i])
            weight = 1.0 if chunk.weights is None else float(chunk.weights[i])
            rows.append((label, weight, chunk.tags[i] if chunk.tags else "", entries))
    return rows


def compare(text, format, folder, **options):
    """Read a text in both ways; whether it was accepted.  AssertionError where the two disagree."""
    from sparsco.streams import StreamError, open_stream

    path = Path(folder) / "text"
    path.write_bytes(text)
    expected, wrong = read_plainly(text, format)
    try:
        found = rows_of(open_stream(path, format, **options))
    except StreamError as error:
        said = re.match(re.escape(f"{path}, line ") + r"(\d+): .+\.$", str(error), re.DOTALL)
        if said is None and str(error).startswith(f"{path} cannot be read"):
            return False  # it happens to begin like a packed file or like UTF-16
        assert said and int(said[1]) == min(wrong), (str(error), wrong, text)
        assert all(character.isprintable() for character in str(error)), error
        return False
    assert not wrong, (wrong, text)
    assert found == expected, (found, expected, text)
    return True


TOKENS = (
    b"1e400 -1e-400 1e75 1.0000001e75 nan inf -0 0 +1 .5 5. 1e 1e+ e1 0x10 1_0 1e-330 4.9e-324 "
    b"9007199254740993 0.1000000000000000055511151231257827 123456789012345678901234567890 00000000000000000000000001 "
    b"1e22 1e23 8.5e22 2.2250738585072011e-308 : | # ' , qid:1 qid: 4294967294:1 4294967295:1 99999999999999999999:1 "
    b"0:1 -1:1 1:1 1:2 3:0 |a |a:2 |:3 || :4 a:b 'tag tag| \xc3\xa9:2 \xff \x00 \xef\xbb\xbf"
).split(b" ") + [b" ", b"\t", b"\n", b"\r\n", b"\r", b"", b"#", b" |"]
SEEDS = {
    "libsvm": [
        b"+1 1:0.5 7:2 # a comment\n-1 2:1e-3\n",
        b"0.25 3:-1.5e2 4:+7\t9:.5\r\n1 qid:3 1:1\n\n# nothing\n2\n",
        b"1 10:0.1234567890123456 11:12345678901234567890 2:3\n-1 1:1",
    ],
    "vw": [
        b"1 2.0 'tag|a x:2 y |b:0.5 z:4 | plain :3 :4\n-1 |a x x\n",
        b"\n 'u | q\n0.5 0.25 t2| w:1e-4 e:1.25\r\n| only\n",
        b"1 | a:0.1234567890123456 b:12345678901234567890\n-1 1 0 'x |s:-2 a|t a b a:-2",
    ],
}


def mutated(rng, format):
    """A valid text with some damage done to it."""
    text = bytearray(b"".join(rng.choices(SEEDS[format], k=rng.randint(1, 3))))
    for _ in range(rng.randint(0, 5)):
        at, kind = rng.randint(0, len(text)), rng.random()
        if kind < 0.5:
            text[at : at + rng.randint(0, 2)] = rng.choice(TOKENS)
        elif kind < 0.65:
            del text[at : at + rng.randint(1, 6)]
        elif kind < 0.8 and at < len(text):
            text[at] = rng.randrange(256) if rng.random() < 0.5 else rng.choice(b"0123456789:.e+-| \n#'\t\r")
        elif kind < 0.9:
            text[at:at] = text[at : at + rng.randint(1, 30)]
        else:
            other = rng.choice(SEEDS[format])
            text[at:at] = other[rng.randint(0, len(other)) :][: rng.randint(1, 30)]
    return bytes(text)


def fuzz(format, count, seed=0):
    """How many of so many mutated texts were accepted; both readers agree on all."""
    rng, accepted = random.Random(f"{format} {seed}"), 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            accepted += compare(mutated(rng, format), format, folder, block_bytes=rng.choice((1, 7, 30, 1 << 20)))
    return accepted


if __name__ == "__main__":
    print(fuzz(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]), "accepted")
