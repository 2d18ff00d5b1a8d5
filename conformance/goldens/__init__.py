"""The golden vectors that ship with the suite."""
