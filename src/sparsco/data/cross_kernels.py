"""The kernels that make crosses: all pairs of a row that rules name, or the ones that a model has.

A row costs as much as the pairs that it has.
"""

from __future__ import annotations

from ..jit.dispatch import U, kernel


@kernel
def cross_rows(indptr, columns, parents, data, members, sides, born, room, writes, longer, numbers, values):
    """Write rows with the products of pairs of their features: first their lengths, then (``writes``) contents.

    ``sides[0, r]`` and ``sides[1, r]`` are the bits of the two words of rule r.  A pair that several rules name is made
    by the first of them.  ``born`` has the bits of boundaries, or no entries if crosses need not be born.
    """
    to, needs_birth = 0, born.size > 0
    for i in range(indptr.size - 1):
        start, stop = indptr[i], indptr[i + 1]
        if writes:
            for p in range(start, stop):
                numbers[to + p - start], values[to + p - start] = columns[p], data[p]
        to += stop - start
        for r in range(sides.shape[1]):
            first, second, lefts, rights = sides[0, r], sides[1, r], 0, 0
            for p in range(start, stop):
                own = members[parents[p]]
                if needs_birth and born[parents[p]] == U(0):
                    continue
                if own & first != U(0):
                    room[0, lefts] = p
                    lefts += 1
                if own & second != U(0):
                    room[1, rights] = p
                    rights += 1
            for a in range(lefts):
                p = room[0, a]
                mine = members[parents[p]]
                for b in range(a + 1 if first == second else 0, rights):
                    q = room[1, b]
                    yours = members[parents[q]]
                    if p == q or (p > q and yours & first != U(0) and mine & second != U(0)):
                        continue  # a square, or a pair that comes the other way round, too
                    if needs_birth and born[parents[p]] & born[parents[q]] == U(0):
                        continue
                    is_made = False
                    for s in range(r):
                        there = mine & sides[0, s] != U(0) and yours & sides[1, s] != U(0)
                        back = yours & sides[0, s] != U(0) and mine & sides[1, s] != U(0)
                        is_made |= there or back
                    if is_made:
                        continue
                    if writes:
                        left, right = min(columns[p], columns[q]), max(columns[p], columns[q])
                        numbers[to], values[to] = (left + 1 << 31) | right, data[p] * data[q]
                    to += 1
        longer[i + 1] = to


@kernel
def cross_known(indptr, parents, data, slot_of, heads, rights, slots, at, writes, longer, found, values):
    """Write rows with their columns and crosses that have a slot: first their lengths, then (``writes``) contents.

    The crosses of parent p are ``heads[p]``, ..., ``heads[p + 1] - 1``: their right parents and their slots.  ``at`` is
    room for the place of each parent in a row, all -1.
    """
    to = 0
    for i in range(indptr.size - 1):
        start, stop = indptr[i], indptr[i + 1]
        for p in range(start, stop):
            if parents[p] < 0:
                continue
            at[parents[p]] = p
            if slot_of[parents[p]] >= 0:
                if writes:
                    found[to], values[to] = slot_of[parents[p]], data[p]
                to += 1
        for p in range(start, stop):
            if parents[p] < 0:
                continue
            for k in range(heads[parents[p]], heads[parents[p] + 1]):
                q = at[rights[k]]
                if q >= 0:
                    if writes:
                        found[to], values[to] = slots[k], data[p] * data[q]
                    to += 1
        for p in range(start, stop):
            if parents[p] >= 0:
                at[parents[p]] = -1
        longer[i + 1] = to
