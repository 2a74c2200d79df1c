"""Random programs in the Python of flows: functions without arguments that compute with values of
all built-in types, and return everything that they have named (``test_generated_python.py``).

A program uses no construct that the reader refuses, and nothing whose result may differ between
two runs. Its values stay small: what is computed from them, in loops too, cannot double for long.
"""

from __future__ import annotations

import re
from random import Random
from typing import Final

HEAD: Final = """from __future__ import annotations

import base64
import bisect
import copy
import hashlib
import itertools
import json
import math
import re
from collections import Counter, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from functools import partial, reduce

from aos.flow import Cx, flow, schema


@schema("g/Start@1")
class Start:
    id: str


@dataclass
class Point:
    x: int
    name: str = "p"
    tags: list[int] = field(default_factory=list)

    def moved(self, by: int) -> Point:
        return Point(self.x + by, self.name, [*self.tags, by])


@dataclass(frozen=True)
class Fixed:
    left: int
    right: str


Pair = namedtuple("Pair", "left right")


class Tally:
    def __init__(self, start: int = 0) -> None:
        self.sum = start
        self.seen: list[int] = []

    def add(self, number: int, *more: int, times: int = 1) -> int:
        for one in (number, *more):
            self.sum += one * times
            self.seen.append(one)
        return self.sum

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.sum == other.sum

    def __repr__(self) -> str:
        return f"Tally({self.sum}, {self.seen})"


def small(value):
    if type(value) is int:
        return value if abs(value) < 2**200 else value % 2**200
    if type(value) in (str, bytes, list) and len(value) > 60:
        return value[:60]
    return value


def text_of(function):
    try:
        return repr(function())[:200]
    except Exception as problem:
        return type(problem).__name__

"""

FOOT: Final = """

FUNCTIONS = [{names}]


@flow("g/run@1", key="id")
async def run(cx: Cx, start: Start) -> list[str]:
    return [text_of(function) for function in FUNCTIONS]
"""

WORDS: Final = (
    "", "a", "Abc", "héllo", "x y  z", "10", "-7", "3.5", "日本", "a,b,,c", "\\n", "it's", '"q"',
    "ß", "ǅ", "🙂k", "0x1f", "True", "  pad ", "aXbXc", "ÀÉ",
)  # fmt: skip
NUMBERS: Final = (0, 1, 2, 3, 5, 7, 10, 12, 64, 99, 255, 1000, -1, -2, -13, 2**31, 2**63, -(2**64))

PLACE: Final = re.compile("<(int|str|bool|ints|strs|dict|float|bytes|decimal|date|set|point)>")

SIMPLE: Final[dict[str, str]] = {
    "int": "41", "str": "str(None)", "bool": "True", "float": "2.675", "decimal": "Decimal(3)",
    "strs": "[]", "dict": "dict(a=1)",
}  # fmt: skip

LITERALS: Final[dict[str, tuple[str, ...]]] = {
    "bool": ("True", "False"),
    "float": ("0.5", "1.25", "(-2.75)", "1e10", "0.1", "3.0", "1e-7"),
    "bytes": ("b''", "b'ab'", r"b'\x00\xff'", r"b'q\n\''"),
    "decimal": ("Decimal('1.25')", "Decimal(3)", "Decimal('-0.1')", "Decimal('1E+3')"),
    "date": ("date(2024, 2, 29)", "date(1999, 12, 31)"),
}

FORM_TEXTS: Final = {
    "int": r"""
        (<int> + <int>) ; (<int> - <int>) ; (<int> * <int>) ; (<int> // <int>) ; (<int> % <int>) ;
        ((<int> % 7) ** (<int> % 5)) ; (<int> << (<int> % 20)) ; (<int> >> (<int> % 70)) ;
        (<int> & <int>) ; (<int> | <int>) ; (<int> ^ <int>) ; (~<int>) ; (-<int>) ; abs(<int>) ;
        len(<str>) ; len(<ints>) ; len(<dict>) ; len(<bytes>) ; len(<set>) ; int(<str>) ;
        int(<str>, 16) ; int(<float>) ; int(<bool>) ; min(<int>, <int>) ; max(<ints>) ;
        max(<ints>, default=4) ; min(<ints>, key=lambda v: (v % 5, v)) ; sum(<ints>) ;
        sum(<ints>, 5) ; <str>.count(<str>) ; <str>.find(<str>) ; <str>.index(<str>) ;
        <str>.rfind(<str>) ; divmod(<int>, <int>)[0] ; divmod(<int>, <int>)[1] ; pow(<int>, 3, 97) ;
        pow(<int> % 9, <int> % 6) ; (<int> if <bool> else <int>) ; round(<float>) ;
        round(<int>, -1) ; <ints>[<int> % 4] ; <ints>[-1] ; <dict>.get(<str>, <int>) ;
        <dict>[<str>] ; (lambda v: v + <int>)(<int>) ; reduce(lambda a, b: a * 3 + b, <ints>, 1) ;
        math.gcd(<int>, <int>) ; math.isqrt(abs(<int>)) ; ord(<str>) ; <ints>.index(<int>) ;
        <ints>.count(<int>) ; math.factorial(<int> % 12) ; math.comb(<int> % 12, <int> % 6) ;
        math.floor(<float>) ; math.ceil(<float>) ; math.trunc(<float>) ; <point>.x ;
        <point>.moved(<int>).x ; Fixed(<int>, 'r').left ;
        bisect.bisect_left(sorted(<ints>), <int>) ; (<date> - date(2020, 1, 1)).days ;
        <date>.weekday() ; int(<decimal>) ; Counter(<str>)['a'] ; len(json.dumps(<strs>)) ;
        len([v for v in <ints> if v > <int>]) ; len(list(itertools.pairwise(<ints>))) ;
        len(re.findall(r'[a-z]', <str>)) ; (<bool> and <int>) ; (<bool> or <int>) ;
        {1: <int>, 2: <int>}[1] ; (<int>, <int>)[<int> % 3] ; [<ints>, <ints>][1][0] ;
        bin(abs(<int>)).count('1') ; len(bin(abs(<int>)).lstrip('0b')) ; next(iter(<ints>)) ;
        next(iter(<ints>), <int>) ; sum(map(math.gcd, <ints>, <ints>)) ; math.prod(<ints>[:3]) ;
        (<date> - date.min).days ; int(<bytes>.hex() or '0', 16) ; deque(<ints>).count(<int>) ;
        math.lcm(<int>, <int>) ; sum(Fixed(v, '').left for v in <ints>) ; Tally(<int>).add(<int>) ;
        [point.x for point in map(<point>.moved, <ints>)][-1] ; Pair(<int>, <int>).right ;
        Pair(<int>, 2)._replace(right=<int>)[1] ; <bytes>.find(b'b') ; <bytes>[<int> % 3] ;
        (lambda *more, by=2: sum(more) * by)(*<ints>, by=<int>) ; sum(Pair(*<ints>[:2])) ;
        reduce(max, <ints>) ; max(map(abs, <ints>), default=0) ; range(<int> % 50)[-1] ;
        [*range(2, <int> % 9)][0] ; <str>.rindex(<str>)
    """,
    "str": r"""
        (<str> + <str>) ; (<str> * (<int> % 4)) ; str(<int>) ; str(<float>) ; str(<bool>) ;
        repr(<str>) ; repr(<ints>) ; repr(<dict>) ; repr(<bytes>) ; str(<decimal>) ; str(<date>) ;
        repr(<decimal>) ; repr(<point>) ; f'{<int>}' ; f'{<int>:>8}|{<int>:+,}' ;
        f'{<int>:#x} {<int>:08b} {<int>:_}' ; f'{<str>:<10}|' ; f'{<str>!r:^12}' ;
        f'{<float>:.3f} {<float>:e} {<float>:g}' ; f'{<float>:10.2%}' ; f'{<bool>} {<bool>:d}' ;
        f'{<strs>} {<dict>}' ; f'{<decimal>:.2f}' ; f'{<int>:{<int> % 9 + 1}d}' ; <str>.upper() ;
        <str>.lower() ; <str>.title() ; <str>.capitalize() ; <str>.swapcase() ; <str>.casefold() ;
        <str>.strip() ; <str>.lstrip('a ') ; <str>.replace(<str>, 'xy') ; <str>[<int> % 5:] ;
        <str>[:<int> % 5] ; <str>[::-1] ; <str>[1:-1:2] ; <str>[<int> % 6] ; <str>.join(<strs>) ;
        <str>.split(<str>)[0] ; <str>.rsplit(',', 1)[-1] ; <str>.zfill(<int> % 9) ;
        <str>.center(<int> % 9, '*') ; <str>.ljust(6, '.') ; <str>.partition(<str>)[2] ;
        <str>.rpartition(',')[0] ; chr(<int> % 1000 + 32) ; <str>.removeprefix('a') ;
        <str>.removesuffix('c') ; json.dumps(<dict>) ; json.dumps(<strs>) ;
        json.dumps(<ints>, indent=1) ; json.dumps(<dict>, sort_keys=True, separators=(',', ':')) ;
        json.dumps(<str>) ; ''.join(sorted(<str>)) ; <bytes>.hex() ; hex(<int>) ; bin(<int>) ;
        oct(<int>) ; '%s %d' % (<str>, <int>) ; '{} {:>4}'.format(<str>, <int>) ;
        '{0}{1}{0}'.format(1, 2) ; re.sub(r'[aeiou]+', '-', <str>) ;
        re.sub(r'(\w)(\d)', r'\2\1', <str>) ; ' '.join(re.split(r'[, ]', <str>)) ;
        hashlib.sha256(<bytes>).hexdigest()[:8] ; base64.b64encode(<bytes>).decode() ;
        <bytes>.decode('utf-8', 'replace') ; <date>.isoformat() ; <date>.strftime('%Y/%m/%d') ;
        (<str> if <bool> else <str>) ; max(<strs>, key=len) ; min(<strs>) ; <strs>[0] ;
        type(<int>).__name__ ; str(<ints> == <ints>) ; <str>.expandtabs(3) ;
        str((<int>, <str>, None)) ; str(sorted(<set>)) ; Fixed(<int>, <str>).right ;
        str(deque(<ints>, maxlen=2)) ; str(timedelta(seconds=<int> % 100000)) ;
        <date>.strftime('%G %V %u') ; json.dumps(<dict>, ensure_ascii=False, indent=2) ;
        re.sub(r'(?P<one>[a-z])', r'[\g<one>]', <str>) ; '%(a)s %(b)05d' % {'a': <str>, 'b': 7} ;
        str(Counter(<ints>).most_common(2)) ; repr(Pair(<int>, <str>)) ; <bytes>.hex(' ') ;
        repr(<bytes>.split(b'a')) ; str(date.fromisoformat(str(<date>))) ; str(None or <str>) ;
        '{a.x} {b[0]}'.format(a=<point>, b=<ints>) ; '{!r:>8}'.format(<str>) ; str(<ints>[:2:-1]) ;
        ''.join(map(chr, [v % 90 + 32 for v in <ints>])) ; str(divmod(<decimal>, 2)) ;
        str(sorted(<dict>.items() | {'k': 1}.items())) ;
        repr([*itertools.zip_longest(<ints>, <str>)]) ; str([*itertools.combinations(<ints>, 2)]) ;
        str(re.split(r'([a-c])', <str>)) ; str(re.match(r'(\w)(\d)?', <str>).groups()) ;
        str([match.span() for match in re.finditer(r'\w+', <str>)])
    """,
    "bool": r"""
        (<int> == <int>) ; (<int> < <int>) ; (<int> <= <int> < <int>) ; (<str> < <str>) ;
        (<str> in <str>) ; (<int> in <ints>) ; (<str> not in <dict>) ; (not <bool>) ;
        (<bool> and <bool>) ; (<bool> or <bool>) ; isinstance(<int>, int) ;
        isinstance(<bool>, (str, int)) ; <str>.startswith(<str>) ; <str>.endswith(('a', 'c')) ;
        all([<bool>, <bool>]) ; any([v > 3 for v in <ints>]) ; <str>.isdigit() ; <str>.isalpha() ;
        <str>.isupper() ; <str>.isalnum() ; <str>.isspace() ; <str>.isidentifier() ;
        <str>.isdecimal() ; (<ints> == <ints>) ; (<ints> < <ints>) ; (<dict> == <dict>) ;
        bool(<str>) ; bool(<ints>) ; (<float> < <int>) ; (<int> == <float>) ; (<decimal> == <int>) ;
        (<decimal> < <decimal>) ; (<date> < <date>) ; (<point> == <point>) ;
        (Fixed(1, <str>) == Fixed(1, <str>)) ; (<set> <= <set>) ; (<int> in <set>) ;
        math.isclose(<float>, <float>) ; (<bytes> == <bytes>) ;
        bool(re.match(r'[A-Za-z]+$', <str>)) ; ((<int>, <str>) < (<int>, <str>)) ; (1 == True) ;
        Tally(<int>) == Tally(<int>) ; <set>.isdisjoint(<set>)
    """,
    "ints": r"""
        [] ; [<int>] ; [<int>, <int>] ; list(range(<int> % 6)) ; list(range(9, <int> % 7, -2)) ;
        [v * 2 for v in <ints>] ; [v for v in <ints> if v % 2] ; sorted(<ints>) ;
        sorted(<ints>, reverse=True) ; sorted(<ints>, key=lambda v: (v % 3, -v)) ;
        (<ints> + <ints>) ; (<ints> * 2) ; [*<ints>, <int>] ; <ints>[1:] ; <ints>[::-1] ;
        <ints>[-2:] ; list(map(lambda v: v - <int>, <ints>)) ; list(<dict>.values()) ;
        list(filter(lambda v: v > 1, <ints>)) ; list(reversed(<ints>)) ; list(<bytes>) ;
        [v for row in [<ints>, <ints>] for v in row] ; list(itertools.accumulate(<ints>)) ;
        list(itertools.chain(<ints>, [<int>])) ; [len(w) for w in <strs>] ; sorted(<set>) ;
        [a * b for a, b in zip(<ints>, <ints>)] ; [i for i, w in enumerate(<strs>) if w] ;
        list(itertools.islice(<ints>, 2)) ; copy.deepcopy(<ints>) ; list(deque(<ints>, 2)) ;
        [sum(pair) for pair in itertools.product(<ints>[:2], [1, 2])] ; [ord(c) for c in <str>] ;
        json.loads(json.dumps(<ints>)) ; list(dict.fromkeys(<ints>)) ;
        [k for k, _ in itertools.groupby(<ints>)] ; <point>.tags ; <point>.moved(3).tags ;
        [n for n, _ in Counter(<ints>).most_common(2)] ; [*map(int, str(abs(<int>)))] ;
        [[v] * 2 for v in <ints>][0]
    """,
    "strs": r"""
        [] ; <str>.split() ; <str>.split(',') ; <str>.split(<str>, 1) ; <str>.splitlines() ;
        list(<str>) ; sorted(<strs>) ; sorted(<strs>, key=len) ; [str(v) for v in <ints>] ;
        list(<dict>) ; sorted(<strs>, key=len, reverse=True) ; [w.upper() for w in <strs> if w] ;
        (<strs> + [<str>]) ; re.findall(r'\w+', <str>) ; list(<dict>.keys()) ; <strs>[::2] ;
        [f'{i}:{w}' for i, w in enumerate(<strs>)] ; [a + b for a, b in zip(<str>, <str>)] ;
        [''.join(p) for p in itertools.permutations('abc', 2)] ; list(map(str, <ints>)) ;
        [*{w: 1 for w in <strs>}] ; [repr(v) for v in <ints>] ; list(reversed(<strs>))
    """,
    "dict": r"""
        {} ; {<str>: <int>} ; {str(v): v for v in <ints>} ; dict(zip(<strs>, <ints>)) ;
        {**<dict>, **<dict>} ; (<dict> | <dict>) ; dict(a=<int>, b=<int>) ; dict([('k', <int>)]) ;
        dict(Counter(<str>)) ; dict(sorted(<dict>.items())) ;
        {k: v for k, v in <dict>.items() if v > <int>} ; {v: i for i, v in enumerate(<strs>)} ;
        copy.copy(<dict>) ; json.loads(json.dumps(<dict>)) ; dict.fromkeys(<strs>, <int>) ;
        dict(defaultdict(int, a=<int>)) ; {k.upper(): v for k, v in <dict>.items()}
    """,
    "float": r"""
        (<int> / 4) ; (<float> * 0.5) ; (<float> + <float>) ; (<float> - <int> % 1000) ;
        math.sqrt(abs(<float>)) ; round(<float>, 2) ; float(<str>) ; float(<int>) ; (<float> // 2) ;
        (<float> % 3) ; abs(<float>) ; max(<float>, <float>) ; sum([<float>, <float>]) ;
        math.fsum([<float>, 0.1, 0.2]) ; float(<decimal>) ; math.fmod(<float>, 2) ;
        (<int> / <int>)
    """,
    "bytes": r"""
        <str>.encode() ; (<bytes> + <bytes>) ; <bytes>[1:] ; bytes(<int> % 4) ; (<bytes> * 2) ;
        bytes.fromhex('00ff41') ; <bytes>.upper() ; base64.b64encode(<bytes>) ;
        hashlib.md5(<bytes>).digest()[:3] ; <bytes>.replace(b'a', b'zz') ; <bytes>[::-1] ;
        b','.join([<bytes>, b'x'])
    """,
    "decimal": r"""
        (<decimal> + <decimal>) ; (<decimal> * <decimal>) ; (<decimal> - <int> % 100) ;
        (<decimal> / 3) ; Decimal(<int>) ; abs(<decimal>) ; (-<decimal>) ;
        <decimal>.quantize(Decimal('0.01')) ; max(<decimal>, <decimal>) ; round(<decimal>, 1) ;
        Decimal(<str>) ; (<decimal> // 1) ; (<decimal> % 2) ; <decimal>.normalize()
    """,
    "date": r"""
        date(2000 + <int> % 50, 1 + <int> % 12, 1 + <int> % 28) ; <date>.replace(day=5) ;
        (<date> + timedelta(days=<int> % 500)) ; (<date> - timedelta(weeks=<int> % 9)) ;
        date.fromisoformat('2024-03-10') ; min(<date>, <date>) ; date(2023, <int> % 14, 30)
    """,
    "set": r"""
        set(<ints>) ; (<set> | <set>) ; (<set> & <set>) ; (<set> - <set>) ; (<set> ^ <set>) ;
        {v % 4 for v in <ints>} ; set() ; <set>.union(<ints>) ; {*<ints>, <int>} ;
        <set>.difference(<set>)
    """,
    "point": r"""
        Point(<int>, <str>) ; Point(<int>, tags=<ints>) ; <point>.moved(<int>) ;
        copy.deepcopy(<point>) ; Point(x=<int>, name=<str>)
    """,
}
"""Expressions of each type, with ``;`` between two. ``<int>`` is an expression of that type."""

FORMS: Final = {
    of: tuple(form.strip() for form in text.split(" ;")) for of, text in FORM_TEXTS.items()
}


class Writer:
    """Writes one function. ``names`` are its variables, by type."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._names: dict[str, list[str]] = {}
        self._count = 0
        self._lines: list[str] = []

    def function(self, name: str) -> str:
        self._lines = [f"def {name}():"]
        self._block(1, self._random.randint(3, 8), depth=0)
        every = [name for names in self._names.values() for name in names]
        shown = [f"sorted({name}, key=repr)" if name.startswith("set") else name for name in every]
        self._lines.append(f"    return [{', '.join(shown)}]")
        return "\n".join(self._lines)

    # Statements

    def _block(self, level: int, count: int, *, depth: int) -> None:
        for _ in range(count):
            self._statement(level, depth)

    def _statement(self, level: int, depth: int) -> None:
        simple = (
            self._assignment, self._assignment, self._assignment, self._augmented, self._list_call,
            self._dict_call, self._unpacking, self._instance_call,
        )  # fmt: skip
        compound = (
            self._if, self._for, self._while, self._try, self._match, self._inner, self._raising,
        )  # fmt: skip
        chosen = simple if depth > 1 or self._random.random() < 0.6 else compound
        self._random.choice(chosen)(level, depth)

    def _line(self, level: int, text: str) -> None:
        self._lines.append("    " * level + text)

    def _new(self, of: str) -> str:
        self._count += 1
        return f"{of}{self._count}"

    def _scoped(self, level: int, count: int, depth: int) -> None:
        """A block that may not run: its names are not seen behind it."""
        before = {of: list(names) for of, names in self._names.items()}
        self._block(level, count, depth=depth + 1)
        self._names = before

    def _assignment(self, level: int, _depth: int) -> None:
        of = self._random.choice(list(FORMS))
        value = self.expression(of, 3)
        if self._random.random() < 0.7:  # its exception does not end the function
            value = f"sorted({value})" if of == "set" else value
            value, of = f"text_of(lambda: {value})", "str"
        name = self._new(of)
        self._line(level, f"{name} = small({value})")
        self._names.setdefault(of, []).append(name)

    def _augmented(self, level: int, depth: int) -> None:
        operators = {"int": "+= -= *= //= %= |= &= ^=", "str": "+=", "ints": "+=", "float": "+= *="}
        of = self._random.choice(list(operators))
        if not self._names.get(of):
            return self._assignment(level, depth)
        operator = self._random.choice(operators[of].split())
        name = self._random.choice(self._names[of])
        self._line(level, f"{name} {operator} {self.expression(of, 2)}")
        self._line(level, f"{name} = small({name})")
        return None

    def _list_call(self, level: int, depth: int) -> None:
        if not self._names.get("ints"):
            return self._assignment(level, depth)
        name, number = self._random.choice(self._names["ints"]), self.expression("int", 1)
        calls = (
            f"append({number})", f"insert({number} % 5, 9)", "extend([1, 2])", "pop()", "sort()",
            f"remove({number})", "reverse()", "sort(key=lambda v: -v)", "pop(0)", "clear()",
        )  # fmt: skip
        self._line(level, f"{name}.{self._random.choice(calls)}")
        return None

    def _dict_call(self, level: int, depth: int) -> None:
        if not self._names.get("dict"):
            return self._assignment(level, depth)
        name, key = self._random.choice(self._names["dict"]), self.expression("str", 1)
        number = self.expression("int", 1)
        calls = (
            f"{name}[{key}] = {number}", f"{name}.setdefault({key}, {number})",
            f"{name}.update({{{key}: {number}}})", f"{name}.pop({key}, None)", f"{name}.pop({key})",
            f"{name}.update(z={number})", f"{name}.popitem()",
        )  # fmt: skip
        self._line(level, self._random.choice(calls))
        return None

    def _unpacking(self, level: int, _depth: int) -> None:
        one, other = self._new("int"), self._new("ints")
        forms = (
            f"{one}, *{other} = {self.expression('ints', 2)}",
            f"*{other}, {one} = {self.expression('ints', 2)}",
            f"{one}, {other} = ({self.expression('int', 2)}, {self.expression('ints', 2)})",
            f"({one}, _), {other} = divmod({self.expression('int', 1)}, 7), [1]",
        )
        self._line(level, self._random.choice(forms))
        self._line(level, f"{one}, {other} = small({one}), small({other})")
        self._names.setdefault("int", []).append(one)
        self._names.setdefault("ints", []).append(other)

    def _instance_call(self, level: int, _depth: int) -> None:
        name, result = self._new("tally"), self._new("int")
        number = self.expression("int", 1)
        self._line(level, f"{name} = Tally({number})")
        calls = (
            f"{name}.add({self.expression('int', 2)})",
            f"{name}.add(*{self.expression('ints', 2)})",
            f"{name}.add(1, 2, times={self.expression('int', 1)})",
            f"{name}.add(**{{'number': 4, 'times': {number}}})",
        )
        self._line(level, f"{result} = small({self._random.choice(calls)})")
        self._names.setdefault("int", []).append(result)
        self._names.setdefault("tally", []).append(name)

    def _if(self, level: int, depth: int) -> None:
        self._line(level, f"if {self.expression('bool', 2)}:")
        self._scoped(level + 1, self._random.randint(1, 3), depth)
        if self._random.random() < 0.4:
            self._line(level, f"elif {self.expression('bool', 2)}:")
            self._scoped(level + 1, 1, depth)
        if self._random.random() < 0.5:
            self._line(level, "else:")
            self._scoped(level + 1, self._random.randint(1, 2), depth)

    def _for(self, level: int, depth: int) -> None:
        loops = (
            ("int", "for {} in {}[:6]:", "ints"), ("str", "for {} in {}[:6]:", "strs"),
            ("str", "for {} in [*{}][:6]:", "dict"), ("str", "for {} in {}[:6]:", "str"),
            ("int", "for _, {} in [*{}.items()][:6]:", "dict"),
            ("int", "for {} in sorted({})[:6]:", "set"),
            ("int", "for _, {} in enumerate({}[:6], 1):", "ints"),
            ("int", "for {}, _ in zip({}, 'abc'):", "ints"),
        )  # fmt: skip
        of, form, source = self._random.choice(loops)
        name = self._new(of)
        # A copy: the block may change the original.
        self._line(level, form.format(name, f"copy.copy({self.expression(source, 2)})"))
        before = {each: list(names) for each, names in self._names.items()}
        self._names.setdefault(of, []).append(name)
        self._block(level + 1, self._random.randint(1, 3), depth=depth + 1)
        if self._random.random() < 0.4:
            self._line(level + 1, f"if {self.expression('bool', 2)}:")
            self._line(level + 2, self._random.choice(("break", "continue")))
        self._names = before
        if self._random.random() < 0.3:
            self._line(level, "else:")
            self._scoped(level + 1, 1, depth)

    def _while(self, level: int, depth: int) -> None:
        name = self._new("turns")
        self._line(level, f"{name} = 0")
        self._line(level, f"while {name} < 4 and {self.expression('bool', 2)}:")
        self._line(level + 1, f"{name} += 1")
        self._scoped(level + 1, self._random.randint(1, 2), depth)

    def _try(self, level: int, depth: int) -> None:
        caught = self._random.choice(
            (
                "ValueError",
                "(KeyError, IndexError)",
                "ZeroDivisionError",
                "TypeError",
                "LookupError",
                "ArithmeticError",
                "Exception",
                "AttributeError",
            )
        )
        self._line(level, "try:")
        self._scoped(level + 1, self._random.randint(1, 3), depth)
        self._line(level, f"except {caught} as problem:")
        name = self._new("str")
        self._line(level + 1, f"{name} = type(problem).__name__")
        self._scoped(level + 1, 1, depth)
        if self._random.random() < 0.3:
            self._line(level, "else:")
            self._scoped(level + 1, 1, depth)
        if self._random.random() < 0.3:
            self._line(level, "finally:")
            self._scoped(level + 1, 1, depth)

    def _match(self, level: int, depth: int) -> None:
        subjects = (
            (self.expression("int", 2), ("0 | 1", "int(v) if v > 9", "-1", "bool()")),
            (self.expression("ints", 2), ("[]", "[v]", "[v, *_]", "[1, 2, *rest]", "[_, _]")),
            (self.expression("str", 2), ("''", "'a' | 'b'", "str(v) if v.isdigit()")),
            (self.expression("dict", 2), ("{'a': v}", "{'a': 1, **rest}", "{}")),
            (self.expression("point", 1), ("Point(x=0)", "Point(x=v, name='p')", "Fixed()")),
            (
                f"({self.expression('int', 1)}, {self.expression('str', 1)})",
                ("(0, _)", "(v, 'a')", "(int(v), str() as w)"),
            ),
        )
        subject, patterns = self._random.choice(subjects)
        self._line(level, f"match {subject}:")
        for pattern in self._random.sample(patterns, min(2, len(patterns))):
            self._line(level + 1, f"case {pattern}:")
            self._scoped(level + 2, 1, depth)
        self._line(level + 1, "case _:")
        self._scoped(level + 2, 1, depth)

    def _inner(self, level: int, _depth: int) -> None:
        """A function inside of the function, which reads the names around it."""
        name, result = self._new("inner"), self._new("int")
        outside = {of: list(names) for of, names in self._names.items()}
        self._line(level, f"def {name}(one, two=2, *more, three=3):")
        self._names.setdefault("int", []).extend(["one", "two", "three"])
        self._names.setdefault("ints", []).append("list(more)")
        value = self.expression("int", 3)
        self._names = outside
        self._line(level + 1, f"return {value}")
        calls = (
            f"{name}(1)", f"{name}(1, 5)", f"{name}(1, 2, 3, 4)", f"{name}(two=7, one=0)",
            f"{name}(1, three=9)", f"{name}(*{self.expression('ints', 1)})",
            f"partial({name}, 4)(three=1)", f"{name}()",
        )  # fmt: skip
        self._line(level, f"{result} = small({self._random.choice(calls)})")
        self._names.setdefault("int", []).append(result)

    def _raising(self, level: int, _depth: int) -> None:
        raised = self._random.choice(
            ("ValueError('v')", "KeyError('k')", "IndexError('i')", "RuntimeError('r')")
        )
        self._line(level, f"if {self.expression('bool', 2)}:")
        self._line(level + 1, f"raise {raised}")

    # Expressions

    def expression(self, of: str, depth: int) -> str:
        """An expression of this type, with at most ``depth`` levels of others in it."""
        names = self._names.get(of)
        if names and self._random.random() < 0.35:
            return self._random.choice(names)
        if depth == 0 or self._random.random() < 0.05:
            return self._literal(of)
        form = self._random.choice(FORMS[of])
        if form.startswith("f'"):
            return PLACE.sub(lambda match: self._simple(match[1]), form)
        return PLACE.sub(lambda match: self.expression(match[1], depth - 1), form)

    def _literal(self, of: str) -> str:
        match of:
            case "int":
                return self._number()
            case "str":
                return self._word()
            case "ints":
                return f"[{self._number()}, {self._number()}, {self._number()}]"
            case "strs":
                return f"[{self._word()}, {self._word()}]"
            case "dict":
                return f"{{'a': {self._number()}, {self._word()}: {self._number()}}}"
            case "set":
                return f"{{{self._number()}, {self._number()}}}"
            case "point":
                return f"Point({self._number()})"
            case _:
                return self._random.choice(LITERALS[of])

    def _simple(self, of: str) -> str:
        """A name or a value without quotes and braces, for an f-string of Python 3.11."""
        names = self._names.get(of, [])
        return self._random.choice([SIMPLE[of], *names])

    def _word(self) -> str:
        word = self._random.choice(WORDS)
        return f"'{word}'" if "'" not in word else f'"{word}"'

    def _number(self) -> str:
        number = self._random.choice(NUMBERS)
        return f"({number})" if number < 0 else str(number)


def written(random: Random, count: int) -> str:
    """A file with ``count`` functions and a flow whose output has the text of each result."""
    names = [f"f{number}" for number in range(count)]
    functions = [Writer(random).function(name) for name in names]
    return HEAD + "\n\n\n".join(["", *functions]).lstrip("\n") + FOOT.format(names=", ".join(names))
