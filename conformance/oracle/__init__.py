"""What is expected: attention from its definition in float64, how far a sound program may be off, the comparison."""
