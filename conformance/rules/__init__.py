"""The rules, one file per behaviour. Each rule is one function; see `attention_conformance.rulebook`."""
