"""`python -m attention_conformance` is the command `attention-conformance`."""

from attention_conformance.cli import main

if __name__ == "__main__":
    main()
