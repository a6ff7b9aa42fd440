"""Tomography: lengths against rays clipped pixel by pixel, sinograms and phantom against scikit-image's."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import sparsco
from sparsco.datasets.tomography import fan_beam, noisy, parallel_beam, shepp_logan
from support import REPOSITORY, number_of_streams

# ---- the slow twin: a ray is a point and a direction, and is clipped by one rectangle after the other


def unit(angle):
    """(cos, sin) of an angle in degrees, exact where it is a multiple of 90."""
    if angle % 90 == 0:
        return [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)][int(angle % 360) // 90]
    return math.cos(math.radians(angle)), math.sin(math.radians(angle))


def spread(count, width):
    return [0.0] if count == 1 else [(i - (count - 1) / 2) * (width / (count - 1)) for i in range(count)]


def fan_rays(N, angles, rays, distance=2.0, span=None):
    if span is None:
        span = 2 * math.degrees(math.atan(1 / (2 * distance - 1)))
    for a in angles:
        c, s = unit(a)
        for b in spread(rays, span):
            cos, sin = unit(a + b)
            yield (-distance * N * s, distance * N * c), (sin, -cos)


def parallel_rays(angles, rays, width):
    for a in angles:
        c, s = unit(a)
        for t in spread(rays, width):
            yield (t * c, t * s), (-s, c)


def clipped(point, direction, low, high):
    """The length of a line in the closed rectangle from corner ``low`` to corner ``high`` (Liang and Barsky)."""
    enters, leaves = -math.inf, math.inf
    for p, d, a, b in zip(point, direction, low, high, strict=True):
        if d == 0.0:
            if not a <= p <= b:
                return 0.0
        else:
            enters, leaves = max(enters, min((a - p) / d, (b - p) / d)), min(leaves, max((a - p) / d, (b - p) / d))
    return max(leaves - enters, 0.0)


def chord(N, ray):
    return clipped(*ray, (-N / 2, -N / 2), (N / 2, N / 2))


def pixel_lengths(N, ray):
    h = N / 2
    return [[clipped(*ray, (c - h, h - r - 1), (c + 1 - h, h - r)) for c in range(N)] for r in range(N)]


def is_steady(N, ray):
    """Whether a chord is well-conditioned: near a corner it changes by 1 / |dx dy| times the ray's shift.

    Rays along an edge of the square are taken when they are exactly on it, or clearly off.
    """
    (x, y), (dx, dy) = ray
    if dx * dy != 0.0:
        return abs(dx * dy) > 1e-3
    gap = abs(abs(x if dx == 0.0 else y) - N / 2)
    return gap == 0.0 or gap > 1e-12


def assert_well_formed(A, N, rows):
    assert A.shape == (rows, N * N) and A.format == "csr" and A.dtype == np.float64
    assert (A.data > 0.0).all() and (A.data <= math.sqrt(2.0) + 1e-12).all()
    within = np.ones(max(A.nnz - 1, 0), dtype=bool)
    starts = A.indptr[1:-1]
    within[starts[(starts > 0) & (starts < A.nnz)] - 1] = False
    assert (np.diff(A.indices)[within] > 0).all()  # sorted, none twice


# ---- lengths

ANGLES = st.one_of(
    st.sampled_from([0, 45, 90, 135, 180, 225, 270, 315, 360, -45, -90]),
    st.integers(-720, 720),
    st.integers(-14_400, 14_400).map(lambda i: i / 20),
    st.floats(-720, 720),
)


@settings(deadline=None, max_examples=number_of_streams(300))
@given(
    N=st.integers(1, 20),
    angles=st.lists(ANGLES, min_size=1, max_size=4),
    rays=st.integers(1, 9),
    width=st.one_of(st.integers(1, 40), st.integers(1, 80).map(lambda i: i / 2), st.floats(1e-3, 60)),
)
@example(N=4, angles=[0, 90, 180, 270], rays=5, width=4)  # along every grid line, the square's edges among them
@example(N=4, angles=[45, 135, -45], rays=3, width=4 * math.sqrt(2))  # a diagonal, and two corners touched
def test_parallel_rows_sum_to_the_chord(N, angles, rays, width):
    twin = list(parallel_rays(angles, rays, width))
    assume(all(is_steady(N, ray) for ray in twin))
    A = parallel_beam(N, angles, rays=rays, width=width)
    assert_well_formed(A, N, len(twin))
    np.testing.assert_allclose(A.sum(axis=1), [chord(N, ray) for ray in twin], rtol=0, atol=1e-10)


@settings(deadline=None, max_examples=number_of_streams(300))
@given(
    N=st.integers(1, 20),
    angles=st.lists(ANGLES, min_size=1, max_size=3),
    rays=st.integers(1, 9),
    distance=st.one_of(st.just(2.0), st.floats(0.75, 20.0)),
    span=st.one_of(st.none(), st.floats(1.0, 179.0)),
)
@example(N=8, angles=[0, 45, 90], rays=8, distance=2.0, span=None)  # the outermost rays touch corners
@example(N=8, angles=[0, 45, 90], rays=9, distance=2.0, span=90.0)
def test_fan_rows_sum_to_the_chord(N, angles, rays, distance, span):
    twin = list(fan_rays(N, angles, rays, distance, span))
    A = fan_beam(N, angles, rays=rays, distance=distance, span=span)
    assert_well_formed(A, N, len(twin))
    steady = np.array([is_steady(N, ray) for ray in twin])
    chords = np.array([chord(N, ray) for ray in twin])
    np.testing.assert_allclose(A.sum(axis=1)[steady], chords[steady], rtol=0, atol=1e-10)


@pytest.mark.parametrize("N", [1, 2, 3, 5, 8])
def test_lengths_are_those_of_rays_clipped_pixel_by_pixel(N):
    rng = np.random.default_rng(N)
    for _ in range(8):
        angles, rays = rng.uniform(-400, 400, 6), int(rng.integers(1, 9))
        width, distance, span = N * rng.uniform(0.1, 1.6), rng.uniform(0.72, 5.0), rng.uniform(5.0, 120.0)
        cases = [
            (parallel_beam(N, angles, rays, width), parallel_rays(angles, rays, width)),
            (fan_beam(N, angles, rays, distance, span), fan_rays(N, angles, rays, distance, span)),
            (fan_beam(N, angles, rays, distance), fan_rays(N, angles, rays, distance)),
        ]
        for A, twin in cases:
            expected = np.array([np.ravel(pixel_lengths(N, ray)) for ray in twin])
            np.testing.assert_allclose(A.toarray(), expected, rtol=0, atol=1e-9)


def test_rays_along_grid_lines_are_counted_once():
    down, across, back, _ = parallel_beam(4, [0, 90, 180, 270], rays=7, width=6).toarray().reshape(4, 7, 4, 4)
    # outside, left edge, the three lines between, right edge (it belongs to the last column), outside
    for place, column in enumerate([None, 0, 1, 2, 3, 3, None]):
        expected = np.zeros((4, 4))
        if column is not None:
            expected[:, column] = 1.0
        assert np.array_equal(down[place], expected) and np.array_equal(back[6 - place], expected)
    for place, row in enumerate([None, 3, 3, 2, 1, 0, None]):
        expected = np.zeros((4, 4))
        if row is not None:
            expected[row] = 1.0
        assert np.array_equal(across[place], expected)


@pytest.mark.parametrize("N", [1, 2, 7, 64, 100])
def test_rays_through_corners_leave_no_slivers(N):
    A = parallel_beam(N, [45, 135, 225, 315], rays=3, width=math.sqrt(2) * N)
    assert np.diff(A.indptr).tolist() == [0, N, 0] * 4  # touching the square in a corner is no length
    falling, rising = np.arange(N) * (N + 1), np.arange(1, N + 1) * (N - 1) if N > 1 else np.zeros(1)
    for angle, pixels in enumerate([falling, rising, falling, rising]):
        row = A[[3 * angle + 1]]
        assert np.array_equal(row.indices, pixels)
        np.testing.assert_allclose(row.data, math.sqrt(2), rtol=1e-13)
    # through a corner of pixels every second row
    slope = math.degrees(math.atan(0.5))
    row = parallel_beam(2 * N, [slope], rays=1).data
    assert len(row) == 2 * N and np.allclose(row, math.hypot(1, 0.5), rtol=1e-12)


def test_the_fan_of_the_papers():
    A = fan_beam(64)
    assert_well_formed(A, 64, 23_040)
    squares = A.multiply(A).sum(axis=1)
    # both figures from rays clipped by each of the 4096 pixels in extended precision
    assert np.count_nonzero(np.diff(A.indptr) == 0) == np.count_nonzero(squares == 0.0) == 1064
    assert abs(squares.max() - 93.46108454281867) < 1e-9
    chords = [chord(64, ray) for ray in fan_rays(64, range(360), 64)]
    np.testing.assert_allclose(A.sum(axis=1), chords, rtol=0, atol=1e-9)
    some = [64 * a + b for a, b in [(0, 0), (0, 31), (17, 5), (45, 63), (90, 40), (211, 32), (359, 33)]]
    rays = list(fan_rays(64, range(360), 64))
    expected = np.array([np.ravel(pixel_lengths(64, rays[i])) for i in some])
    np.testing.assert_allclose(A[some].toarray(), expected, rtol=0, atol=1e-9)


def test_a_far_source_gives_parallel_rays():
    far, N, angles = 1e7, 12, np.arange(7.0, 187.0, 20.0)
    fan = fan_beam(N, angles, rays=12, distance=far, span=math.degrees(11 / (far * N)))
    assert abs(fan - parallel_beam(N, angles, rays=12)).max() < 1e-4


def test_turning_the_beam_is_turning_the_image_back():
    image = np.random.default_rng(0).normal(size=(6, 6))
    for beam in (fan_beam, parallel_beam):
        turned, still = beam(6, [110.0]), beam(6, [20.0])
        np.testing.assert_allclose(turned @ image.ravel(), still @ np.rot90(image, -1).ravel(), atol=1e-12)


def test_default_rays():
    assert fan_beam(5).shape == (360 * 5, 25)
    for N in (1, 2, 7, 64):
        A = parallel_beam(N, angles=[0, 45])
        rays = A.shape[0] // 2
        assert (rays - N) % 2 == 0 and math.sqrt(2) * N <= rays < math.sqrt(2) * N + 2
        sums = A[:rays].sum(axis=0)
        assert (sums == 1.0).all()  # at 0 degrees one ray through each column's middle


@pytest.mark.parametrize("N", [16, 64])
def test_a_ray_costs_its_crossings_and_not_all_pixels(N):
    """Four numbers for each ray and grid line at most: all pixels of a ray would be N."""
    tracemalloc.start()
    try:
        A = fan_beam(N, range(0, 360, 10))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert A.nnz <= A.shape[0] * (2 * N - 1) and peak < 4 * 8 * A.shape[0] * N


# ---- the phantom, and scikit-image


def test_phantom():
    image = shepp_logan(64)
    assert image.shape == (64, 64) and image.dtype == np.float64
    assert np.count_nonzero(image) == 1686
    assert np.unique(image).tolist() == [0.0, 0.1, 0.2, 0.3, 0.4, 1.0]  # what cancels is exactly zero
    skull, dark = image == 1.0, (image == 0.0) & (np.hypot(*np.mgrid[-1:1:64j, -1:1:64j]) < 0.5)
    assert np.array_equal(skull, skull[:, ::-1]) and not np.array_equal(skull, skull[::-1])
    assert dark[:, :32].sum() > 1.5 * dark[:, 32:].sum()  # the larger ventricle is on the left
    assert image[20, 32] == 0.3 and image[43, 32] == 0.2  # the bright ellipse is above the centre
    assert shepp_logan(1).tolist() == [[0.2]]
    for N in range(2, 60):
        assert shepp_logan(N).min() == 0.0


def test_phantom_is_scikit_images():
    data = pytest.importorskip("skimage.data", reason="scikit-image is not installed")
    np.testing.assert_allclose(shepp_logan(400), data.shepp_logan_phantom(), rtol=0, atol=1 / 255)


def test_sinogram_is_scikit_images():
    transform = pytest.importorskip("skimage.transform", reason="scikit-image is not installed")
    N, angles = 129, np.arange(0.0, 180.0, 5.0)  # odd: it turns images around the middle of the central pixel
    image = shepp_logan(N)
    theirs = transform.radon(image, theta=angles, circle=True)

    def error(angles=angles, image=image, width=None, shift=0):
        ours = (parallel_beam(N, angles, rays=N, width=width) @ image.ravel()).reshape(-1, N).T
        return np.linalg.norm(np.roll(ours, shift, axis=0) - theirs) / np.linalg.norm(theirs)

    # it interpolates turned images, we take pixels for squares: 1.6% here, twice that at half the resolution
    assert error() < 0.02
    wrong = {
        "turned by a degree": error(angles + 1.0),
        "turned the other way": error(-angles),
        "turned by 90": error(angles + 90.0),
        "seen from behind": error(angles + 180.0),
        "shifted": error(shift=1),
        "two pixels narrower": error(width=N - 3),
        "upside down": error(image=image[::-1]),
        "mirrored": error(image=image[:, ::-1]),
        "transposed": error(image=image.T),
    }
    assert min(wrong.values()) > 0.04, wrong


# ---- noise and bad input


@pytest.mark.parametrize("level", [0.0, 0.05, 2.0])
@pytest.mark.parametrize("shape", [(1,), (1000,), (30, 20)])
def test_noise_has_exactly_the_relative_norm(level, shape):
    y = np.random.default_rng(3).normal(size=shape)
    before = y.copy()
    z = noisy(y, level, seed=1)
    assert z.shape == shape and np.array_equal(y, before)
    assert np.linalg.norm(z - y) == pytest.approx(level * np.linalg.norm(y), rel=1e-12)
    assert np.array_equal(z, noisy(y, level, seed=1))
    assert (level == 0.0) == np.array_equal(z, y)


def test_noise_is_gaussian_and_depends_on_the_seed():
    y = np.full(100_000, 2.0)
    noise = noisy(y, 0.05) - y
    assert not np.array_equal(noise, noisy(y, 0.05, seed=1) - y)
    assert abs(noise.mean()) < 0.1 * 5 / math.sqrt(len(y)) and noise.std() == pytest.approx(0.1, rel=1e-3)
    assert np.mean(np.abs(noise) < 0.1) == pytest.approx(0.6827, abs=0.01)
    assert np.array_equal(noisy(np.zeros(3)), np.zeros(3))


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: shepp_logan(0), "N must"),
        (lambda: shepp_logan(2.5), "N must"),
        (lambda: fan_beam(0), "N must"),
        (lambda: parallel_beam(-3), "N must"),
        (lambda: fan_beam(4, rays=0), "rays must"),
        (lambda: parallel_beam(4, rays=1.5), "rays must"),
        (lambda: fan_beam(4, angles=[0.0, np.nan]), "angles must"),
        (lambda: parallel_beam(4, angles=[np.inf]), "angles must"),
        (lambda: parallel_beam(4, angles=[]), "angles must"),
        (lambda: fan_beam(4, angles=30.0), "angles must"),
        (lambda: fan_beam(4, distance=0.7), "distance must"),
        (lambda: fan_beam(4, distance=np.nan), "distance must"),
        (lambda: fan_beam(4, distance=np.inf), "distance must"),
        (lambda: fan_beam(4, span=0.0), "span must"),
        (lambda: fan_beam(4, span=180.0), "span must"),
        (lambda: parallel_beam(4, width=0.0), "width must"),
        (lambda: parallel_beam(4, width=np.inf), "width must"),
        (lambda: noisy([1.0], level=-0.1), "level must"),
        (lambda: noisy([1.0], level=np.nan), "level must"),
        (lambda: noisy([]), "y must"),
        (lambda: noisy([1.0, np.inf]), "y must"),
    ],
)
def test_bad_input(call, word):
    with pytest.raises(ValueError, match=f"^{word} [^.]*(\\.\\d[^.]*)*\\.$"):  # one sentence
        call()


def test_it_is_part_of_the_package():
    assert sparsco.datasets.tomography.fan_beam is fan_beam


def test_the_example_reconstructs_and_draws(tmp_path, capsys):
    import importlib.util

    pytest.importorskip("matplotlib")
    file = REPOSITORY / "examples" / "tomography.py"
    spec = importlib.util.spec_from_file_location("tomography_example", file)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    curves = example.main(["--size", "16", "--out", str(tmp_path / "picture.png")])
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    assert "relative error" in capsys.readouterr().out
    for points in curves.values():
        assert points[-1][1] < 0.6 * points[0][1]  # the error falls
    assert curves["OCMDI"][-1][2] < curves["average"][-1][2]  # and what is chosen is sparser than the average
