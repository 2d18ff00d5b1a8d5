"""The probe: what it finds out of programs whose answers are known."""
