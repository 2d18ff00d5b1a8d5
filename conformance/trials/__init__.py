"""What a rule works with: one implementation in one dtype and one mode, called with one case."""
