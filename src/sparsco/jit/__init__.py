"""Compiled code: the compile pipelines, dispatch by a record's type, the disk cache, lanes, SIMD."""
