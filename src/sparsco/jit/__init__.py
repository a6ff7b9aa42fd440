"""Compiled code: the compile pipeline, calls that a record's type decides, the disk cache, lanes, SIMD."""
