"""Benchmarks: what is called, how it is timed, how its memory is counted, and how the figures are shown.

contenders   an implementation, the reference that it is held to, and torch's own attention
workload     one of them with its tensors, ready to be called
measure      rounds in turn, so that noise hits all alike
meter        the peak of memory during one call
growth       the exponent with which time and memory grow in L
series       figures of several runs, put together
benchfile, table, plot       what is written and shown
serving, listening           the two sides of a child process
items        pytest: one test function for each of them
"""
