"""A sample as it was asked and answered: its media, prompts and answers, for the viewer, sites and exports."""
