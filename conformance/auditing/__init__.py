"""Audits: targets dealt out to child processes, judged there, and their records gathered."""
