"""Selections with error control: integrated path stability selection (Melikechi and Miller, JASA 2025).

Every pair of random halves of the rows gives two paths of L1 solutions.  A feature that nearly all halves select, over
a range of strengths, is stable.  ``scores`` turns the shares of halves into expected false positives and q-values.
``half_paths`` solves the paths, ``judged`` decides which columns can be judged, and ``selecting`` joins them.
"""
