"""A package, so that its helpers are found before the `tests` that some distributions install beside themselves."""
