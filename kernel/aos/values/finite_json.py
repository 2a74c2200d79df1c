"""Read any JSON of others whose numbers can be written as JSON again.

Python's parser accepts ``NaN`` and ``Infinity``, and reads ``1e999`` as infinity. Written again,
that is no JSON.
"""

from __future__ import annotations

import json
import math


def finite_json(data: str | bytes) -> object:
    """The value of a JSON text.

    Raises:
        ValueError: It is no JSON, or has a number that is too large for a float.
        RecursionError: Lists and objects are nested too deeply.
    """
    value: object = json.loads(data, parse_constant=_refuse, parse_float=_finite)
    return value


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        return _refuse(text)
    return number


def _refuse(text: str) -> float:
    raise ValueError(f"{text:.40} is no number of JSON, or too large")
