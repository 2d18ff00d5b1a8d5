"""Reports made from records: terminal, files."""
