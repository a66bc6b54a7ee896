"""What is done to a model: calibrations, temperatures, and treatments that name them. No torch."""
