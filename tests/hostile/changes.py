"""What somebody else would have written in the place of a sound file: values of other types and out of all ranges, lists many times as
long, words and lines exchanged, code that raises; and now and then damage that takes no heed of what is in it."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import tomli_w

from tests.hostile import json_text
from tests.hostile.archives import edited
from tests.hostile.damage import damaged
from tests.hostile.json_values import otherwise

NUMBERS = (0, 1, 2, 3, 64, 1000, 16_384, 16_385, 40_000, 10**6, 10**9, 10**12, -1)
MOST_ITEMS = 200_000
"""Of a file that is made longer."""
MOST_BYTES = 32 << 20
"""Of a text that is made longer: twice what any text that a scenario names may have (gradwire/regular_files.py)."""
TIMES = (2, 10, 100, 1000, 5000, 30_000)
WORD = re.compile(rb"[\w.+-]+")
WORDS = (
    *(b"", b"0", b"-1", b"1e309", b"1e-309", b"nan", b"inf", b"1_0", b"9" * 50, b"9" * 5000, b"0x10", b"\xc2\xb2"),
    *(b"x" * 3000, b"\x1b[2J", b"\x00", b"\xed\xa0\x80", b"\xff", b'"', b",", b";", b"\n", b"=1+1", b"\xc3\xa9"),
    *(b"../../etc/passwd", b"[" * 2000, b'{"a":' * 2000, b"true", b"null", b"256.256.256.256", b"0.0.0.0/0"),
)
STATEMENTS = (
    *(
        "raise SystemExit",
        "raise SystemExit(1)",
        "raise ValueError('x' * 100_000)",
        "raise KeyError",
        "raise MemoryError",
    ),
    *(
        "raise BaseException('no')",
        "raise GeneratorExit",
        "raise type('Mute', (Exception,), {'__str__': lambda _: 1 / 0})",
    ),
    *(
        "1 / 0",
        "import no_such_module",
        "return",
        "return 5",
        "return {}",
        "return {'x': None}",
        "yield",
        "break",
        "del job",
    ),
    *(
        "(lambda f: f(f))(lambda f: f(f))",
        "(" * 300,
        "-" * 20_000 + "1",
        "x" + ".a" * 20_000,
        "'\\ud800'",
        "\x00",
        "\tpass",
    ),
    *("STRATEGIES = 3", "STRATEGIES = ()", "STRATEGIES = (None,)", "STRATEGIES = type('S', (), {'__repr__': 1})()"),
    *("workers = None", "builder = 3", "print('x')", "options = None", "self.hosts = None", "raise OSError(1, 'no')"),
)
VALUES = (
    b"0",
    b"-1",
    b"2",
    b"7",
    b"None",
    b"'x'",
    b"[]",
    b"{}",
    b"job",
    b"1.5",
    b"float('nan')",
    b"True",
    b"''",
    b"10**30",
)


def changed(name: str, content: bytes, random: Random) -> bytes:
    """The content of a file of this name, changed as its ending says, or damaged."""
    if random.random() < 0.15:
        return damaged(content, random)
    return BY_ENDING.get(Path(name).suffix, as_text)(content, random)


def as_json(content: bytes, random: Random) -> bytes:
    """JSON with values that do not belong."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):  # it was changed before
        return content
    if random.random() < 0.3:
        return json_text.spoiled(document, random).encode(errors="surrogatepass")
    return json.dumps(spoiled(document, random)).encode(errors="surrogatepass")


def as_toml(content: bytes, random: Random) -> bytes:
    """TOML with values that do not belong."""
    with suppress(TypeError, ValueError, AttributeError):  # what TOML cannot say
        return tomli_w.dumps(spoiled(tomllib.loads(content.decode()), random)).encode(errors="surrogatepass")
    return b"title = 3\n"


def as_lines(content: bytes, random: Random) -> bytes:
    """Lines of JSON, one of which has values that do not belong, or is there many times."""
    lines = content.splitlines() or [b""]
    at = random.randrange(len(lines))
    one = as_json(lines[at], random)
    return b"\n".join([*lines[:at], *[one] * (random.choice(TIMES) if random.random() < 0.1 else 1), *lines[at:]])


def as_text(content: bytes, random: Random) -> bytes:
    """A text with a word, or a line, that does not belong, is missing, or is there many times."""
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    if random.random() < 0.3:
        at, other = random.randrange(len(lines)), random.randrange(len(lines))
        times = min(random.choice((0, 2, *TIMES)), MOST_ITEMS // len(lines), MOST_BYTES // len(lines[other]))
        lines[at : at + 1] = [lines[other]] * times
        return b"".join(lines)
    return _with_another_word(content, random, WORDS)


def as_code(content: bytes, random: Random) -> bytes:
    """Python with a statement more, or with another value somewhere. What it does ends by itself."""
    if random.random() < 0.4:
        return _with_another_word(content, random, VALUES)
    lines = content.decode(errors="surrogateescape").splitlines(keepends=True) or [""]
    at = random.randrange(len(lines))
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    lines.insert(at, f"{indent}{random.choice(STATEMENTS)}\n")
    return "".join(lines).encode(errors="surrogateescape")


def _with_another_word(content: bytes, random: Random, words: tuple[bytes, ...]) -> bytes:
    count = sum(1 for _ in WORD.finditer(content))
    if not count:
        return content
    place = _word(content, random.randrange(count))
    word = _word(content, random.randrange(count))[0] if random.random() < 0.3 else random.choice(words)
    return content[: place.start()] + word + content[place.end() :]


def _word(content: bytes, number: int) -> re.Match[bytes]:
    """A word by its number. A list of them all would take a hundred times the memory of the text."""
    return next(islice(WORD.finditer(content), number, None))


BY_ENDING: Mapping[str, Callable[[bytes, Random], bytes]] = {
    ".json": as_json,
    ".yaml": as_json,
    ".jsonl": as_lines,
    ".toml": as_toml,
    ".py": as_code,
    ".npz": edited,
}


def spoiled(document: Any, random: Random) -> Any:
    """A document with values that do not belong, or with lists many times as long."""
    for _ in range(random.choice((1, 1, 2, 4))):
        longer = random.random() < 0.5 and _count(document) < 1000
        document = _more(document, random) if longer else otherwise(document, random)
    return document


def _more(value: Any, random: Random) -> Any:
    """The value with one of its lists many times as long, or one of its numbers larger: what costs readers most."""
    document = copy.deepcopy(value)
    places = [
        (holder, key)
        for holder in _holders(document)
        for key in (holder if isinstance(holder, dict) else range(len(holder)))
        if isinstance(holder[key], list | int)
    ]
    if not places:
        return document
    holder, key = random.choice(places)
    if isinstance(holder[key], list):
        times = min(random.choice(TIMES), MOST_ITEMS // max(1, _count(holder[key])))
        holder[key] = [_renamed(each, turn) for turn in range(times) for each in holder[key]]
    else:
        holder[key] = random.choice(NUMBERS)
    return document


def _holders(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*([value] if isinstance(value, dict | list) else []), *(each for one in inner for each in _holders(one))]


def _count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, inner))


def _renamed(value: Any, turn: int) -> Any:
    """The value, called otherwise in every second copy."""
    if turn % 2 and isinstance(value, dict):
        return {key: f"{each}{turn}" if key in ("id", "name", "switch") else each for key, each in value.items()}
    return value
