"""`python -m docs.derived`: make the derived files without Sphinx."""

from . import FOLDER, write

write()
print(f"written to {FOLDER}")
