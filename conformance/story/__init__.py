"""What is said of a failure: its text, the keys that were really seen, and a script to paste."""
