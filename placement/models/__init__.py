"""Facts of models: shipped ones, config.json files, what each family counts, and the limits of what is believed."""
