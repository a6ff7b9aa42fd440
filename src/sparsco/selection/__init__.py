"""Selection of models: paths of strengths, cross-validation, stable selections."""
