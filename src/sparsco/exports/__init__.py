"""Models that leave Python: SQL, C, JavaScript, plain Python, ONNX, JSON and CSV, all written from one record."""
