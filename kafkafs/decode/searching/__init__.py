"""Search for records: the pattern, the literal in it, its automaton, and the records that match."""
