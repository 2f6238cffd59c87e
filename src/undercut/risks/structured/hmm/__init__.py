"""Hidden Markov models of words: likelihood and margin."""
