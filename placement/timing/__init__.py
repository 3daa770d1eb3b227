"""Time of a step: links and collectives, passes over the model, generation, stages."""
