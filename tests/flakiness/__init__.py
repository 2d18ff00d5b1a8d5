"""The same verdicts whatever the seed, the order of rules, the threads, the process and what ran before."""
