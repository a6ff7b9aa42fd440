"""Tomography: the modified Shepp-Logan phantom, and measurements of an image along fan and parallel beams.

An image of N x N unit pixels fills the square [-N/2, N/2]^2, row 0 at the top and x to the right.  A matrix has a row
for each ray and a column for each pixel (row by row); its entries are the lengths of the rays in the pixels, so that
``A @ image.ravel()`` are the line integrals of the image.

>>> A = fan_beam(64)
>>> truth = shepp_logan(64)
>>> A.shape, int((truth != 0.0).sum())
((23040, 4096), 1686)
>>> clean = A @ truth.ravel()
>>> y = noisy(clean, level=0.05)
>>> round(float(np.linalg.norm(y - clean) / np.linalg.norm(clean)), 12)
0.05
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import cosdg, sindg

__all__ = ["fan_beam", "noisy", "parallel_beam", "shepp_logan"]

# Toft's ellipses: intensity in tenths, half axes, centre, tilt in degrees.  In whole numbers, sums cancel to exactly 0.
_ELLIPSES = (
    (10, 0.69, 0.92, 0.0, 0.0, 0.0),
    (-8, 0.6624, 0.874, 0.0, -0.0184, 0.0),
    (-2, 0.11, 0.31, 0.22, 0.0, -18.0),
    (-2, 0.16, 0.41, -0.22, 0.0, 18.0),
    (1, 0.21, 0.25, 0.0, 0.35, 0.0),
    (1, 0.046, 0.046, 0.0, 0.1, 0.0),
    (1, 0.046, 0.046, 0.0, -0.1, 0.0),
    (1, 0.046, 0.023, -0.08, -0.605, 0.0),
    (1, 0.023, 0.023, 0.0, -0.606, 0.0),
    (1, 0.023, 0.046, 0.06, -0.605, 0.0),
)


def shepp_logan(N: int) -> np.ndarray:
    """Return the modified Shepp-Logan phantom (Toft's intensities, 0 to 1) on N x N points that include the edges.

    >>> shepp_logan(5)
    array([[0. , 0. , 0. , 0. , 0. ],
           [0. , 0.2, 0.3, 0.2, 0. ],
           [0. , 0.2, 0.2, 0.2, 0. ],
           [0. , 0.2, 0.2, 0.2, 0. ],
           [0. , 0. , 0. , 0. , 0. ]])
    """
    _check_whole("N", N)
    x = (2.0 * np.arange(N) - (N - 1)) / max(N - 1, 1)
    y = -x[:, None]
    tenths = np.zeros((N, N), dtype=np.int64)
    for intensity, a, b, x0, y0, tilt in _ELLIPSES:
        c, s = cosdg(tilt), sindg(tilt)
        along, across = c * (x - x0) + s * (y - y0), c * (y - y0) - s * (x - x0)
        tenths[(along / a) ** 2 + (across / b) ** 2 <= 1.0] += intensity
    return tenths / 10.0


def fan_beam(
    N: int,
    angles: Sequence[float] | np.ndarray = range(360),
    rays: int | None = None,
    distance: float = 2.0,
    span: float | None = None,
) -> csr_array:
    """Return the lengths of a fan's rays in the pixels: ``len(angles) * rays`` rows, all rays of the first angle first.

    At angle a (degrees) the source is at ``distance * N`` from the centre, in direction (-sin a, cos a): above the
    image at 0, from there counterclockwise.  ``rays`` (default: N) leave it at equal angles over ``span`` degrees, at
    angle 0 from left to right.  The default span is that of the upper side as seen from the source at 0.

    >>> fan_beam(2, angles=[0], rays=1).toarray()  # along the line between the pixels: counted once
    array([[0., 1., 0., 1.]])
    """
    _check_whole("N", N)
    rays = N if rays is None else rays
    _check_whole("rays", rays)
    if not math.sqrt(0.5) < distance < math.inf:
        raise ValueError(
            f"distance must be finite and above sqrt(1/2), so that the source is outside the image, got {distance!r}."
        )
    if span is None:
        span = 2.0 * math.degrees(math.atan(1.0 / (2.0 * distance - 1.0)))
    if not 0.0 < span < 180.0:
        raise ValueError(f"span must be between 0 and 180 degrees, got {span!r}.")
    turn = _spread(rays, span)
    # the ray at angle a, turned by b, is the line at angle a + b whose distance from the centre is that of the source
    # times sin b
    return _lengths(N, _checked(angles)[:, None] + turn, distance * N * sindg(turn))


def parallel_beam(
    N: int,
    angles: Sequence[float] | np.ndarray = range(180),
    rays: int | None = None,
    width: float | None = None,
) -> csr_array:
    """Return the lengths of parallel rays in the pixels: ``len(angles) * rays`` rows, the first angle's rays first.

    A ray is the line x cos a + y sin a = s, for each angle a (degrees) and ``rays`` equidistant s from -width/2 to
    width/2: columns of pixels from left to right at 0, rows from bottom to top at 90.  By default rays are 1 apart,
    cover the image's diagonal, and run through the centres of pixels at 0 and 90 degrees.

    >>> parallel_beam(2, angles=[0, 45]).toarray().round(3)
    array([[0.   , 0.   , 0.   , 0.   ],
           [1.   , 0.   , 1.   , 0.   ],
           [0.   , 1.   , 0.   , 1.   ],
           [0.   , 0.   , 0.   , 0.   ],
           [0.   , 0.   , 0.   , 0.   ],
           [0.414, 0.   , 1.   , 0.414],
           [0.414, 1.   , 0.   , 0.414],
           [0.   , 0.   , 0.   , 0.   ]])
    """
    _check_whole("N", N)
    if rays is None:
        rays = N + 2 * math.ceil((math.sqrt(2.0) - 1.0) * N / 2.0)
    _check_whole("rays", rays)
    if width is not None and not 0.0 < width < math.inf:
        raise ValueError(f"width must be positive and finite, got {width!r}.")
    return _lengths(N, _checked(angles)[:, None], _spread(rays, rays - 1.0 if width is None else width))


def noisy(y: Any, level: float = 0.05, seed: Any = 0) -> np.ndarray:
    """Return y plus Gaussian noise whose Euclidean norm is exactly ``level`` times that of y.

    >>> y = np.array([3.0, 4.0])
    >>> round(float(np.linalg.norm(noisy(y, level=0.2, seed=7) - y)), 12)
    1.0
    """
    y = np.asarray(y, dtype=np.float64)
    size = np.linalg.norm(y.ravel())
    if y.size == 0 or not np.isfinite(size):
        raise ValueError("y must hold at least one number, and finite ones only.")
    if not 0.0 <= level < math.inf:
        raise ValueError(f"level must be finite and not negative, got {level!r}.")
    noise = np.random.default_rng(seed).standard_normal(y.shape)
    return y + noise * (level * size / np.linalg.norm(noise.ravel()))


def _lengths(N: int, angle: np.ndarray, offset: np.ndarray) -> csr_array:
    """Return the lengths in the pixels of the lines x cos(angle) + y sin(angle) = offset, both broadcast."""
    views = [_view(N, *lines) for lines in zip(*np.broadcast_arrays(angle, offset), strict=True)]
    counts, pixels, lengths = (np.concatenate(part) for part in zip(*views, strict=True))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    A = csr_array((lengths, pixels, indptr.astype(_index(indptr[-1]))), shape=(len(counts), N * N))
    A.sort_indices()
    return A


def _view(N: int, angle: np.ndarray, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the number of pixels that each line meets, and, line by line, the pixels and the lengths in them.

    In matrix coordinates, q down and p to the right from the upper left corner, a line is alpha p + beta q = b.  One
    with |alpha| >= |beta| makes at least as many steps down as sideways.  In each row of pixels it has the length
    1 / |alpha| and crosses at most one grid line, from ``first`` to ``first + 1``.  For other lines p and q are
    exchanged.  A line along a grid line belongs to the pixel after it, on the far edge of the square to the one before.
    """
    alpha, beta = cosdg(angle % 360.0), -sindg(angle % 360.0)
    b = offset + 0.5 * N * (alpha + beta)
    steep = np.abs(alpha) >= np.abs(beta)
    major, minor = np.where(steep, (alpha, beta), (beta, alpha))[:, :, None]

    crossing = (b[:, None] - minor * np.arange(N + 1)) / major
    corner = np.rint(crossing)
    crossing = np.where(np.abs(crossing - corner) < 1e-14 * N, corner, crossing)  # rounding would leave tiny lengths
    low = np.minimum(crossing[:, :-1], crossing[:, 1:])
    high = np.maximum(crossing[:, :-1], crossing[:, 1:])
    first = np.where(high == N, N - 1, np.floor(low))
    share = np.divide(first + 1 - low, high - low, out=np.ones_like(low), where=high > first + 1)

    length = np.stack([share, 1.0 - share], axis=2) / np.abs(major)[:, :, None]
    place = np.stack([first, first + 1], axis=2)
    met = (length > 0.0) & (place >= 0) & (place < N)
    step = np.arange(N)[:, None]
    pixel = np.where(steep[:, None, None], step * N + place, place * N + step)
    return met.sum(axis=(1, 2)), pixel[met].astype(_index(N * N)), length[met]


def _index(largest: int) -> type:
    return np.int32 if largest < 2**31 else np.int64


def _spread(count: int, width: float) -> np.ndarray:
    """Return ``count`` equidistant numbers from -width/2 to width/2, exactly symmetric; 0 if there is only one."""
    return (np.arange(count) - 0.5 * (count - 1)) * (width / max(count - 1, 1))


def _checked(angles: Any) -> np.ndarray:
    angles = np.asarray(angles, dtype=np.float64)
    if angles.ndim != 1 or angles.size == 0 or not np.isfinite(angles).all():
        raise ValueError("angles must be a sequence of at least one finite number of degrees.")
    return angles


def _check_whole(name: str, value: Any) -> None:
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a whole number, 1 or more, got {value!r}.")
