"""The questions that fairspan answers about a model, one folder each."""
