"""Published coefficients, as data."""
