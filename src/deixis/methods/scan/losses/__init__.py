"""Loss of the matchers."""
