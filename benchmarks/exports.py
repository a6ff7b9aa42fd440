"""How fast exports are: the dense entry point of C, and the export of a model with ten million columns.

    python benchmarks/exports.py

Times are CPU times, the least of several.  The bars: 2 ns for each selected feature in C, 0.2 s and 20 kB for an
export.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from sparsco import SparseRegressor, export

_MAIN = """
#include <stdio.h>
#include <time.h>
int main(void) {
  static double x[64][model_FEATURES];
  double scores[model_OUTPUTS], sum = 0.0, best = 1e9;
  int i, j, k;
  for (i = 0; i < 64; i++) for (j = 0; j < model_FEATURES; j++) x[i][j] = (i * 31 + j * 17) % 13 - 6.0;
  for (k = 0; k < 20; k++) {
    clock_t start = clock();
    double seconds;
    for (i = 0; i < 200000; i++) { model_dense(x[i % 64], scores); sum += scores[0]; }
    seconds = (double)(clock() - start) / CLOCKS_PER_SEC / 200000 / model_FEATURES;
    if (seconds < best) best = seconds;
  }
  printf("%.3f %g\\n", best * 1e9, sum);
  return 0;
}
"""


def wide_model(weights: int = 50, columns: int = 10**7) -> SparseRegressor:
    """Return a model of so many columns, of which some have a weight."""
    rng = np.random.default_rng(0)
    used, rows = np.sort(rng.choice(columns, weights, replace=False)), np.repeat(np.arange(8 * weights), 10)
    X = sp.csr_matrix((rng.normal(size=len(rows)), (rows, rng.choice(used, len(rows)))), shape=(8 * weights, columns))
    return SparseRegressor(alpha=1e-6, random_state=0).fit(X, X[:, used] @ rng.normal(size=weights))


def dense_ns(model: SparseRegressor, flags: str = "-O2") -> float:
    """Return the nanoseconds of the dense entry point for each selected feature."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.c").write_text(str(export(model, "c")))
        limits = f"enum {{ model_FEATURES = {model.n_selected_}, model_OUTPUTS = 1 }};\n"
        Path(folder, "main.c").write_text(limits + "void model_dense(const double *, double *);\n" + _MAIN)
        warned = ["-Wall", "-Wextra", "-Werror"]
        subprocess.run(
            ["cc", "-std=c99", *warned, flags, "model.c", "main.c", "-o", "model", "-lm"], cwd=folder, check=True
        )
        found = subprocess.run(["./model"], cwd=folder, check=True, capture_output=True, text=True)
    return float(found.stdout.split()[0])


def main() -> None:
    """Print the figures."""
    model = wide_model()
    for weights in (50, 1000):
        print(f"C, dense, {weights:,} features: {dense_ns(wide_model(weights, 10**5)):.2f} ns a feature (bar 2)")
    for format in ("sql", "c", "js", "python", "onnx", "json", "csv"):
        raw, times = export(model, format), []
        for _ in range(5):
            start = time.process_time()
            raw = export(model, format)
            times.append(time.process_time() - start)
        size = len(raw)  # type: ignore[arg-type]
        print(f"{format}: {1e3 * min(times):.1f} ms (bar 200), {size:,} bytes (bar 20,000), 10^7 columns, 50 weights")


if __name__ == "__main__":
    main()
