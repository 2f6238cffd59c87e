"""Byte-level parsing of SVMlight / LIBSVM text.

    line    = label ["qid:" integer] {index ":" value} ["#" comment]
    number  = [sign] digits ["." digits] ["e" [sign] digits]        value = mantissa * 10**exponent

Every `text` here consists of whole lines and ends in a newline.  That newline stops every scan, so none of them
compares a position with the end.  Numbers come out correctly rounded; the few that need more than two doubles of
precision are listed in `hard`, for the caller to convert.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undercut._jit.compile import njit

# What `parse_rows` says about the token it stopped at.
DONE, BAD_LABEL, BAD_QID, MIXED_QID, BAD_FEATURE, BAD_ORDER = range(6)

# What `scan_number` says about a number.
_WRONG, _EXACT, _HARD = range(3)

_TAB, _NEWLINE, _RETURN, _SPACE, _HASH, _PLUS, _MINUS, _DOT, _ZERO, _NINE, _COLON, _UPPER_E, _LOWER_E = (
    b"\t\n\r #+-.09:Ee"
)
_Q, _I, _D = b"qid"
_NONE = np.int64(0)  # in place of 0, for which as an argument Numba would compile the called function once more
_MAX_DIGITS = 18  # 10**18 < 2**63
_FULL_MANTISSA = 10**17  # from here on a mantissa has all its digits
_EXACT_MANTISSA = 2**53
_EXACT_POWER = 22  # 10.0**22 is the largest power of ten that is a double
_MAX_POWER = 128
_MAX_EXPONENT = 100_000_000  # further digits of an exponent change nothing
_SPLIT = 2.0**27 + 1.0
_SLACK = 2.0**-97  # bounds the relative error of `_product`, which is below 2**-102

# 10**k = _TEN[k + _MAX_POWER] + _TEN_TAIL[k + _MAX_POWER], to 106 bits
_POWERS = [Fraction(10) ** k for k in range(-_MAX_POWER, _MAX_POWER + 1)]
_TEN = np.array([float(power) for power in _POWERS])
_TEN_TAIL = np.array([float(power - Fraction(float(power))) for power in _POWERS])


class Rows(NamedTuple):
    """Parsed rows: row i has label `y[i]` and the next `sizes[i]` entries of `indices` (as written) and `values`."""

    y: NDArray[np.float64]
    qid: NDArray[np.int64]
    sizes: NDArray[np.int32]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]


class Rules(NamedTuple):
    """What a feature may be: ``min_index <= index <= max_index`` and ``|value| <= max_value``."""

    min_index: int
    max_index: int
    max_value: float


@njit(cache=True)
def count_marks(text):
    """The number of newlines and of colons: upper bounds on rows and stored entries."""
    n_lines = n_colons = 0
    for c in text:
        n_lines += c == _NEWLINE
        n_colons += c == _COLON
    return n_lines, n_colons


@njit(cache=True)
def _is_digit(c):
    return _ZERO <= c <= _NINE


@njit(inline="always")
def _is_blank(c):
    return c in (_SPACE, _TAB, _RETURN)


@njit(cache=True)
def _ends_token(c):
    return c in (_SPACE, _NEWLINE, _TAB, _RETURN, _HASH)


@njit(inline="always")
def _product(mantissa, exponent):
    """``mantissa * 10**exponent`` in two doubles, and whether the error leaves no doubt about its rounding."""
    m = float(mantissa)
    m_tail = float(mantissa - int(m))
    p = _TEN[exponent + _MAX_POWER]
    p_tail = _TEN_TAIL[exponent + _MAX_POWER]

    # Dekker: high + error = m * p exactly.
    high = m * p
    t = _SPLIT * m
    m1 = t - (t - m)
    t = _SPLIT * p
    p1 = t - (t - p)
    m2, p2 = m - m1, p - p1
    error = ((m1 * p1 - high) + m1 * p2 + m2 * p1) + m2 * p2

    # Ziv: the rounding is certain if both ends of the error interval round to the same double.
    low = error + (m * p_tail + m_tail * p)
    value = high + low
    tail = low - (value - high)
    slack = _SLACK * value
    return value, value + (tail - slack) == value and value + (tail + slack) == value


@njit(cache=True)
def _scale(mantissa, exponent):
    """``mantissa * 10**exponent`` for ``0 <= mantissa <= 10**18``, and whether it is correctly rounded."""
    if mantissa == 0:
        return 0.0, True
    if mantissa <= _EXACT_MANTISSA and -_EXACT_POWER <= exponent <= _EXACT_POWER:
        # Both operands are doubles: one operation, one rounding.
        if exponent < 0:
            return mantissa / _TEN[_MAX_POWER - exponent], True
        return mantissa * _TEN[_MAX_POWER + exponent], True
    if -_MAX_POWER <= exponent <= _MAX_POWER:
        return _product(mantissa, exponent)
    return 0.0, False


@njit(inline="always")
def _scan_exponent(text, pos):
    """The exponent that follows an "e", saturated far outside the range of doubles, and where it ends."""
    negative = text[pos] == _MINUS
    if negative or text[pos] == _PLUS:
        pos += 1
    if not _is_digit(text[pos]):
        return 0, -1
    exponent = 0
    while _is_digit(text[pos]):
        if exponent < _MAX_EXPONENT:
            exponent = 10 * exponent + (text[pos] - _ZERO)
        pos += 1
    return (-exponent if negative else exponent), pos


@njit(cache=True)
def _scan_digits(text, pos, mantissa):
    """`mantissa` continued by the digits at `pos`, how many of them were dropped to keep it small, and their end."""
    n_dropped = 0
    while _is_digit(text[pos]):
        if mantissa < _FULL_MANTISSA:
            mantissa = 10 * mantissa + (text[pos] - _ZERO)
        else:
            n_dropped += 1
        pos += 1
    return mantissa, n_dropped, pos


@njit(cache=True)
def scan_number(text, pos):
    """The number at `pos`: what is known of it (`_WRONG`, `_EXACT`, `_HARD`), its value and where it ends."""
    negative = text[pos] == _MINUS
    if negative or text[pos] == _PLUS:
        pos += 1

    start = pos
    mantissa, n_dropped, pos = _scan_digits(text, pos, _NONE)
    n_digits, exponent = pos - start, n_dropped
    if text[pos] == _DOT:
        start = pos + 1
        mantissa, more, pos = _scan_digits(text, start, mantissa)
        n_digits += pos - start
        exponent += more - (pos - start)
        n_dropped += more
    if n_digits == 0:
        return _WRONG, 0.0, pos
    if text[pos] == _LOWER_E or text[pos] == _UPPER_E:
        written, pos = _scan_exponent(text, pos + 1)
        if pos < 0:
            return _WRONG, 0.0, pos
        exponent += written

    value, known = _scale(mantissa, exponent)
    if n_dropped > 0:
        # The dropped digits lie between none and one unit of the last kept: known if both ends round alike.
        upper, upper_known = _scale(mantissa + 1, exponent)
        known = known and upper_known and upper == value
    return (_EXACT if known else _HARD), (-value if negative else value), pos


@njit(cache=True)
def _scan_natural(text, pos):
    """The digits at `pos` as an integer, -1 if there are none or too many, and where they end."""
    start, number = pos, 0
    while _is_digit(text[pos]):
        number = 10 * number + (text[pos] - _ZERO)
        pos += 1
    return (number if 0 < pos - start <= _MAX_DIGITS else -1), pos


@njit(cache=True)
def _skip_blanks(text, pos):
    while _is_blank(text[pos]):
        pos += 1
    return pos


@njit(inline="always")
def _starts_qid(text, pos):
    return text[pos] == _Q and text[pos + 1] == _I and text[pos + 2] == _D and text[pos + 3] == _COLON


@njit(inline="always")
def _scan_qid(text, pos):
    """The integer after ``qid:``, and where it ends; the end is -1 if it is not an integer."""
    negative = text[pos] == _MINUS
    number, end = _scan_natural(text, pos + 1 if negative else pos)
    if number < 0 or not _ends_token(text[end]):
        return 0, -1
    return (-number if negative else number), end


@njit(inline="always")
def _skip_line(text, pos):
    while text[pos] != _NEWLINE:
        pos += 1
    return pos + 1


@njit(inline="always")
def _parse_features(text, pos, rules, out, k, hard, n_hard):
    """Append the features from `pos` to the end of the line; see `parse_rows`."""
    previous = -1
    pos = _skip_blanks(text, pos)
    while text[pos] != _NEWLINE and text[pos] != _HASH:
        index, colon = _scan_natural(text, pos)
        if text[colon] != _COLON or index < rules.min_index or index > rules.max_index:
            return BAD_FEATURE, pos, k, n_hard
        if index <= previous:
            return BAD_ORDER, pos, k, n_hard
        kind, value, end = scan_number(text, colon + 1)
        if kind == _WRONG or not _ends_token(text[end]) or abs(value) > rules.max_value:
            return BAD_FEATURE, pos, k, n_hard
        if kind == _HARD:
            hard[n_hard, 0], hard[n_hard, 1], hard[n_hard, 2] = k, pos, end
            n_hard += 1
        out.indices[k] = index
        out.values[k] = value
        k += 1
        previous = index
        pos = _skip_blanks(text, end)
    return DONE, pos, k, n_hard


@njit(cache=True)
def parse_rows(text, pos, has_qid, rules, out, hard):
    """Parse lines from `pos` until `out.y` is full or the text ends.

    `has_qid` is 1, 0 or, while no row has been seen, -1.  Row `j` of `hard` holds a slot (k for ``values[k]``, ~i for
    ``y[i]``) and the range of the token whose number belongs there.  Returns the code, the position (of the offending
    token unless `DONE`), the number of rows, stored entries and hard numbers, and the new `has_qid`.
    """
    row = k = n_hard = _NONE
    while row < out.y.size and pos < text.size:
        pos = _skip_blanks(text, pos)
        if text[pos] == _NEWLINE or text[pos] == _HASH:
            pos = _skip_line(text, pos)
            continue
        start = pos

        kind, out.y[row], pos = scan_number(text, start)
        if kind == _WRONG or not _ends_token(text[pos]):
            return BAD_LABEL, start, row, k, n_hard, has_qid
        if kind == _HARD:
            hard[n_hard, 0], hard[n_hard, 1], hard[n_hard, 2] = ~row, start, pos
            n_hard += 1

        pos = _skip_blanks(text, pos)
        found = 1 if _starts_qid(text, pos) else 0
        if found != has_qid and has_qid >= 0:
            return MIXED_QID, start, row, k, n_hard, has_qid
        has_qid = found
        if found:
            out.qid[row], end = _scan_qid(text, pos + 4)
            if end < 0:
                return BAD_QID, pos, row, k, n_hard, has_qid
            pos = end

        first = k
        code, pos, k, n_hard = _parse_features(text, pos, rules, out, k, hard, n_hard)
        if code != DONE:
            return code, pos, row, k, n_hard, has_qid
        out.sizes[row] = k - first
        row += 1
        pos = _skip_line(text, pos)
    return DONE, pos, row, k, n_hard, has_qid
