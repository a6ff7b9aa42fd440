"""The code that exports of Python consist of: the standard library alone, and a record of the model as JSON has it."""
